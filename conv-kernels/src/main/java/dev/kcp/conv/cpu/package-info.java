/** The convolution's programs on the CPU, a vector of channels at a time. */
package dev.kcp.conv.cpu;
