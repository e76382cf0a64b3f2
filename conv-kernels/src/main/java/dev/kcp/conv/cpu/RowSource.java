package dev.kcp.conv.cpu;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ShardTables;
import dev.kcp.tensor.Tensor;

/**
 * Where a fragment's input rows lie: in x, in the history pool, or, before a document, in the row of zeros.
 *
 * @param x address of local row 0
 * @param history address of the pool's row 0, or 0
 * @param zeros address of C zeros
 */
record RowSource(ShardTables tables, long x, long xPitchBytes, long history, long historyPitchBytes, long zeros) {
    static RowSource of(ShardTables tables, Operands in, long zeros) {
        Tensor history = in.history();
        return new RowSource(
                tables,
                in.x().address(),
                in.x().pitchBytes(),
                history == null ? 0 : history.address(),
                history == null ? 0 : history.pitchBytes(),
                zeros);
    }

    /** Fills in the three rows before local row {@code begin} and then rows {@code [begin, end)}, plus an offset. */
    void window(int fragment, int begin, int end, long columnBytes, long[] window) {
        int first = tables.begin(fragment);
        for (int i = begin - ShardTables.HISTORY; i < end; i++) {
            window[i - begin + ShardTables.HISTORY] = address(fragment, first, i) + columnBytes;
        }
    }

    private long address(int fragment, int first, int row) {
        if (row >= first) {
            return x + row * xPitchBytes;
        }
        int pool = tables.historyRow(fragment, first - row);
        return pool < 0 ? zeros : history + pool * historyPitchBytes;
    }

    /** How many of the three rows before a local row belong to its document. */
    int validBefore(int fragment, int row) {
        int inside = row - tables.begin(fragment);
        int valid = Math.min(inside, ShardTables.HISTORY);
        while (valid < ShardTables.HISTORY && tables.historyRow(fragment, valid - inside + 1) >= 0) {
            valid++;
        }
        return valid;
    }
}
