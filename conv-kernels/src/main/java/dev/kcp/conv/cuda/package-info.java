/**
 * The convolution on NVIDIA GPUs: which kernels a call needs, their arguments and their launches. The kernels lie in
 * {@code src/main/cuda}.
 */
package dev.kcp.conv.cuda;
