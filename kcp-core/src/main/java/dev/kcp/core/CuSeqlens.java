package dev.kcp.core;

import dev.kcp.conv.ConvChecks;
import java.util.Arrays;

/** Document boundaries of a packed batch, on the host: 0, n1, n1 + n2, ... Equal neighbours are an empty document. */
public final class CuSeqlens {
    private final int[] offsets;

    private CuSeqlens(int[] offsets) {
        ConvChecks.rising(offsets);
        this.offsets = offsets;
    }

    /**
     * Boundaries themselves.
     *
     * @throws IllegalArgumentException if they do not start at 0 or ever fall
     */
    public static CuSeqlens of(int... offsets) {
        return new CuSeqlens(offsets.clone());
    }

    /**
     * Boundaries of documents of these lengths.
     *
     * @throws IllegalArgumentException if a length is negative or all together exceed INT32
     */
    public static CuSeqlens ofLengths(int... lengths) {
        int[] offsets = new int[lengths.length + 1];
        for (int d = 0; d < lengths.length; d++) {
            if (lengths[d] < 0) {
                throw new IllegalArgumentException("a length is negative: lengths[" + d + "]=" + lengths[d]);
            }
            if (offsets[d] > Integer.MAX_VALUE - lengths[d]) {
                throw new IllegalArgumentException(
                        "more tokens than INT32 can count: lengths[" + d + "]=" + lengths[d] + " before=" + offsets[d]);
            }
            offsets[d + 1] = offsets[d] + lengths[d];
        }
        return new CuSeqlens(offsets);
    }

    /** Documents, empty ones among them. */
    public int documents() {
        return offsets.length - 1;
    }

    /** All tokens, E. */
    public int tokens() {
        return offsets[offsets.length - 1];
    }

    /** First packed token of a document. */
    public int begin(int document) {
        return offsets[document];
    }

    /** One past its last packed token. */
    public int end(int document) {
        return offsets[document + 1];
    }

    /** Tokens of a document. */
    public int length(int document) {
        return end(document) - begin(document);
    }

    /** The document that holds a packed token. */
    public int documentOf(int token) {
        int at = Arrays.binarySearch(offsets, token);
        int document = at >= 0 ? at : -at - 2;
        while (end(document) <= token) {
            document++;
        }
        return document;
    }

    int[] offsets() {
        return offsets;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof CuSeqlens that && Arrays.equals(offsets, that.offsets);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(offsets);
    }

    @Override
    public String toString() {
        return "CuSeqlens" + Arrays.toString(offsets);
    }
}
