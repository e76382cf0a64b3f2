/** The trainer's programs on a GPU: cuBLAS products of BF16 rows, and kernels for all else. */
package dev.kcp.train.cuda;
