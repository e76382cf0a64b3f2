package dev.kcp.core;

import dev.kcp.Digest;
import dev.kcp.conv.ShardTables;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * How many rows a caller gives as the history of each document: 0 to 3, for documents whose first tokens were in an earlier
 * batch. Part of the batch's layout, so equal on all ranks.
 */
public final class HistoryCounts {
    /** Rows of {@code [documents, 3, C]} per document; the last {@code n} of them are valid. */
    public static final int ROWS = ShardTables.HISTORY;

    /** Every document begins in this batch. */
    public static final HistoryCounts NONE = new HistoryCounts(new int[0]);

    private final int[] rows;

    private HistoryCounts(int[] rows) {
        this.rows = rows;
    }

    /**
     * The counts of all documents, in their order.
     *
     * @param rows valid history rows of each document
     * @throws IllegalArgumentException if one is not 0 to 3
     */
    public static HistoryCounts of(int... rows) {
        for (int d = 0; d < rows.length; d++) {
            if (rows[d] < 0 || rows[d] > ROWS) {
                throw new IllegalArgumentException(
                        "a document has 0 to 3 history rows: document=" + d + " rows=" + rows[d]);
            }
        }
        return Arrays.stream(rows).allMatch(count -> count == 0) ? NONE : new HistoryCounts(rows.clone());
    }

    /** Valid history rows of a document. */
    public int rows(int document) {
        return rows.length == 0 ? 0 : rows[document];
    }

    /** True where no document has any. */
    public boolean isNone() {
        return rows.length == 0;
    }

    void check(CuSeqlens cuSeqlens) {
        if (!isNone() && rows.length != cuSeqlens.documents()) {
            throw new IllegalArgumentException("history counts for another number of documents: counts=" + rows.length
                    + " documents=" + cuSeqlens.documents());
        }
    }

    /** The digest of a partition together with these counts. */
    long digest(long partition) {
        if (isNone()) {
            return partition;
        }
        ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES + rows.length).putLong(partition);
        for (int count : rows) {
            bytes.put((byte) count);
        }
        return Digest.of(bytes.flip());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof HistoryCounts that && Arrays.equals(rows, that.rows);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(rows);
    }

    @Override
    public String toString() {
        return "HistoryCounts" + Arrays.toString(rows);
    }
}
