/**
 * The causal convolution with SiLU. Users call {@link dev.kcp.conv.CausalConv1d} on one device; what is sharded calls the
 * same programs through {@link dev.kcp.conv.ConvEngine}, shard by shard.
 */
package dev.kcp.conv;
