package dev.kcp.train;

/**
 * A place in the endless row of documents that a {@link Packer} takes.
 *
 * @param epoch epochs before this one
 * @param document documents of this epoch that were taken whole
 * @param token tokens that were taken of the document after those
 */
public record DataPosition(long epoch, int document, int token) {
    /** The first token of the first epoch. */
    public static final DataPosition START = new DataPosition(0, 0, 0);

    /** @throws IllegalArgumentException if a number is negative */
    public DataPosition {
        if (epoch < 0 || document < 0 || token < 0) {
            throw new IllegalArgumentException(
                    "not a place in the data: epoch=" + epoch + " document=" + document + " token=" + token);
        }
    }
}
