/**
 * NVIDIA GPUs: devices, streams, events, graphs, memory, and kernels from their files to their launch. Knows no convolution;
 * whatever computes or moves rows on a GPU is built on it.
 */
package dev.kcp.cuda;
