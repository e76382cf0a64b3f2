package dev.kcp.core;

import dev.kcp.tensor.Tensor;

/**
 * One tensor of a {@link KcpConv1d#forward(KcpContext, java.util.List, RecomputeHandle) forward} call. S = this rank's
 * tokens, C = channels, which differ from tensor to tensor; x, weight and bias are borrowed until the saved set is closed.
 *
 * @param x BF16 {@code [S, C]}
 * @param weight FP32 or BF16 {@code [C, 4]}
 * @param bias FP32 or BF16 {@code [C]}, or null
 * @param y BF16 {@code [S, C]}, written
 * @param initialHistory BF16 {@code [documents, 3, C]} where the context has a caller's history, else null. Of a document
 *     with n history rows the last n are read, oldest first, on the rank that owns the document's first token
 * @param finalHistory BF16 {@code [documents, 3, C]}, or null: the last three rows of each document, the caller's history
 *     among them, zeros where it has fewer; written on the rank that owns the document's last token (rank 0 of the group
 *     for a document without tokens), other documents are left alone
 */
public record ConvArguments(
        Tensor x, Tensor weight, Tensor bias, Tensor y, Tensor initialHistory, Tensor finalHistory) {
    /** Arguments without a caller's history. */
    public static ConvArguments of(Tensor x, Tensor weight, Tensor bias, Tensor y) {
        return new ConvArguments(x, weight, bias, y, null, null);
    }
}
