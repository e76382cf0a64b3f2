/** The trainer's programs on the CPU: OpenBLAS products and loops of eight FP32 lanes. */
package dev.kcp.train.cpu;
