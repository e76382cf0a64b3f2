package dev.kcp.train;

import dev.kcp.core.CuSeqlens;

/**
 * One step's tokens, the same on every rank.
 *
 * @param inputs token before each position, in batch order; 0 where a document starts
 * @param targets token to be predicted at each position; 0 where a document ends
 * @param cuSeqlens where documents, and the cut parts of documents, begin and end
 */
public record PackedBatch(byte[] inputs, byte[] targets, CuSeqlens cuSeqlens) {
    /** @throws IllegalArgumentException if the three differ in tokens */
    public PackedBatch {
        if (inputs.length != targets.length || inputs.length != cuSeqlens.tokens()) {
            throw new IllegalArgumentException("inputs, targets and documents differ in tokens: inputs=" + inputs.length
                    + " targets=" + targets.length + " cuSeqlens=" + cuSeqlens.tokens());
        }
    }

    /** Tokens of the batch, over all ranks. */
    public int tokens() {
        return inputs.length;
    }
}
