/** Tensors over memory of the host or a device, owned or borrowed, and the files they come from. */
package dev.kcp.tensor;
