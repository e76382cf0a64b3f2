package dev.kcp.core;

import dev.kcp.tensor.Tensor;

/**
 * One tensor of a {@link KcpConv1d#backward(Saved, java.util.List) backward} call.
 *
 * @param dy BF16 {@code [S, C]}, or null for zeros
 * @param dx BF16 {@code [S, C]}, written, or null where nobody asks for it
 * @param dHistory BF16 {@code [documents, 3, C]}, or null: what this batch adds to the gradient of the caller's history
 *     rows, zeros in rows that are not valid; written for documents with history rows on the rank that owns their first
 *     token, other documents are left alone
 */
public record ConvGradients(Tensor dy, Tensor dx, Tensor dHistory) {}
