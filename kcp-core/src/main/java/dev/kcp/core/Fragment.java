package dev.kcp.core;

/**
 * One document's part inside one shard.
 *
 * @param document the document's number in the packed batch
 * @param offset first token, counted from the document's begin
 * @param length tokens; 0 is allowed
 */
public record Fragment(int document, int offset, int length) {
    /** @throws IllegalArgumentException if a number is negative or the end exceeds INT32 */
    public Fragment {
        if (document < 0 || offset < 0 || length < 0 || offset > Integer.MAX_VALUE - length) {
            throw new IllegalArgumentException(
                    "not a fragment: document=" + document + " offset=" + offset + " length=" + length);
        }
    }
}
