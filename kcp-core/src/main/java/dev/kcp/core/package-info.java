/**
 * Context parallelism: who owns which tokens ({@link dev.kcp.core.Partition}), which rows travel
 * ({@link dev.kcp.core.HaloPlan}), one batch on one rank ({@link dev.kcp.core.KcpContext}), and the convolution over it
 * ({@link dev.kcp.core.KcpConv1d}), checkpointed or not.
 */
package dev.kcp.core;
