/**
 * The convolution's programs on NVIDIA GPUs, and what they need of the driver: devices, streams, events, graphs. The kernels
 * lie in {@code src/main/cuda}.
 */
package dev.kcp.conv.cuda;
