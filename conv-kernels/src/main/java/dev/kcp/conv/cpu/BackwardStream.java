package dev.kcp.conv.cpu;

import dev.kcp.conv.LeafTable;
import dev.kcp.conv.ShardTables;
import dev.kcp.tensor.HostMemory;

/**
 * Follows rows of one block of channels in order, a tile at a time: g, its products for the leaf, and, three rows behind,
 * dx. While rows follow one another g is computed once; where the rows given end inside a fragment, g of up to three rows
 * after them is computed for dx alone.
 */
final class BackwardStream {
    private final BackwardMain call;
    private final Scratch own;
    private final int channelBegin;
    private final int width;
    private final int whole;
    private final long pitch;
    /** Addresses of the g rows of local rows from {@link #pending} on. */
    private final long[] g = new long[Scratch.TILE_ROWS + 2 * ShardTables.HISTORY];

    private int fragment = -1;
    private int next = -1;
    private int pending;

    BackwardStream(BackwardMain call, Scratch own, int channelBegin, int width) {
        this.call = call;
        this.own = own;
        this.channelBegin = channelBegin;
        this.width = width;
        this.whole = own.whole(width);
        this.pitch = width * (long) Float.BYTES;
    }

    /**
     * @param leaf five planes of the leaf's sums, or 0 where nobody asks for them
     */
    void follow(LeafTable.Run run, long leaf) {
        if (run.fragment() != fragment || run.begin() != next) {
            finish();
            fragment = run.fragment();
            next = run.begin();
            pending = next;
        }
        while (next < run.end()) {
            tile(Math.min(Scratch.TILE_ROWS, run.end() - next), leaf);
        }
    }

    private void tile(int rows, long leaf) {
        long address = gradients(rows);
        if (leaf != 0) {
            int valid = call.rows.validBefore(fragment, next);
            LeafRows.add(
                    call.policy(), leaf, call.sumPlaneBytes(), whole, width, own.window, valid, rows, address, pitch);
        }
        int owedBegin = owedBegin();
        for (int row = Math.max(next, owedBegin); row < next + rows; row++) {
            long to = call.tail.rowAddress(call.tables.tailBegin(fragment) + row - owedBegin) + channelBegin * 4L;
            HostMemory.copy(address + (row - next) * pitch, to, pitch);
        }
        next += rows;
        write(Math.max(0, next - pending - ShardTables.HISTORY), next - pending);
    }

    /** Computes g of the next rows; their addresses join those of the pending ones. */
    private long gradients(int rows) {
        long address = own.takeRows(rows, pitch);
        call.rows.window(fragment, next, next + rows, channelBegin * 2L, own.window);
        call.fillGradientRows(own.dy, next, rows, channelBegin * 2L);
        PreactivationRows.run(
                own.window, rows, call.planes + channelBegin * 4L, call.channels * 4L, whole, width, address, pitch);
        ActivationRows.gradient(call.policy(), address, pitch, rows, whole, width, own.dy);
        for (int r = 0; r < rows; r++) {
            g[next - pending + r] = address + r * pitch;
        }
        return address;
    }

    private int owedBegin() {
        return call.tables.end(fragment) - call.tables.owedRows(fragment);
    }

    /** Writes dx of the first pending rows, but for owed ones, from the g rows present. */
    private void write(int rows, int present) {
        if (call.dx != null) {
            int written = Math.max(0, Math.min(rows, owedBegin() - pending));
            InputGradientRows.run(
                    g,
                    present,
                    written,
                    call.dx.rowAddress(pending) + channelBegin * 2L,
                    call.dx.pitchBytes(),
                    call.planes + channelBegin * 4L,
                    call.channels * 4L,
                    whole,
                    width);
        }
        System.arraycopy(g, rows, g, 0, present - rows);
        pending += rows;
    }

    /** Completes dx of the last rows given. */
    void finish() {
        int rows = next - pending;
        if (rows > 0) {
            int after = call.dx == null ? 0 : Math.min(ShardTables.HISTORY, call.tables.end(fragment) - next);
            if (after > 0) {
                gradients(after);
            }
            write(rows, rows + after);
        }
        fragment = -1;
    }
}
