package dev.kcp.conv.cpu;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;

/**
 * Tiles of preactivations, and what forward and head make of each while it is in the cache.
 *
 * @param rows where the input rows lie
 */
record ForwardTiles(ShardTables tables, CallSpace space, RowSource rows) {
    /** Rows of one task of forward. */
    private static final int TASK_ROWS = 64;

    static ForwardTiles of(ShardTables tables, Operands in, CallSpace space) {
        return new ForwardTiles(tables, space, RowSource.of(tables, in, space.zeros()));
    }

    /** y of every row that needs no history from elsewhere. */
    void main(Workers workers, Scratch[] scratch, Tensor y) {
        workers.run((tables.rows() + TASK_ROWS - 1) / TASK_ROWS, (worker, task) -> {
            int taskEnd = Math.min(tables.rows(), (task + 1) * TASK_ROWS);
            int row = task * TASK_ROWS;
            for (int f = tables.fragmentOf(row); row < taskEnd; f++) {
                int end = Math.min(taskEnd, tables.end(f));
                run(scratch[worker], f, Math.max(row, tables.begin(f) + tables.seamRows(f)), end, y);
                row = Math.max(row, end);
            }
        });
    }

    /** y of the first up to three rows of continuing fragments. */
    void seam(Workers workers, Scratch[] scratch, Tensor y) {
        workers.run(tables.fragments(), (worker, f) -> {
            int begin = tables.begin(f);
            run(scratch[worker], f, begin, begin + tables.seamRows(f), y);
        });
    }

    private void run(Scratch own, int fragment, int begin, int end, Tensor y) {
        int channels = (int) space.channels();
        for (int i = begin; i < end; i += Scratch.TILE_ROWS) {
            int count = Math.min(Scratch.TILE_ROWS, end - i);
            for (int c = 0; c < channels; c += Scratch.BLOCK_CHANNELS) {
                int width = Math.min(Scratch.BLOCK_CHANNELS, channels - c);
                long p = preactivations(own, fragment, i, count, c, width);
                ActivationRows.silu(
                        p, width * 4L, count, own.whole(width), width, y.rowAddress(i) + c * 2L, y.pitchBytes());
            }
        }
    }

    /** g of the first up to three rows of continuing fragments; a null dy stands for zeros. */
    void head(Workers workers, Scratch[] scratch, SiluGradPolicy policy, Tensor dy, Tensor head) {
        int channels = (int) space.channels();
        workers.run(tables.fragments(), (worker, f) -> {
            int count = tables.seamRows(f);
            Scratch own = scratch[worker];
            for (int c = 0; c < channels && count > 0; c += Scratch.BLOCK_CHANNELS) {
                int width = Math.min(Scratch.BLOCK_CHANNELS, channels - c);
                long g = preactivations(own, f, tables.begin(f), count, c, width);
                fillGradientRows(own.dy, dy, space.zeros(), tables.begin(f), count, c * 2L);
                ActivationRows.gradient(policy, g, width * 4L, count, own.whole(width), width, own.dy);
                for (int r = 0; r < count; r++) {
                    HostMemory.copy(g + r * width * 4L, head.rowAddress(tables.headBegin(f) + r) + c * 4L, width * 4L);
                }
            }
        });
    }

    private long preactivations(Scratch own, int fragment, int begin, int count, int c, int width) {
        rows.window(fragment, begin, begin + count, c * 2L, own.window);
        long p = own.takeRows(count, width * 4L);
        PreactivationRows.run(
                own.window,
                count,
                space.planes() + c * 4L,
                space.channels() * 4L,
                own.whole(width),
                width,
                p,
                width * 4L);
        return p;
    }

    /** Fills in the addresses of rows of dy, or of the row of zeros where there is none. */
    static void fillGradientRows(long[] addresses, Tensor dy, long zeros, int begin, int count, long columnBytes) {
        for (int i = 0; i < count; i++) {
            addresses[i] = dy == null ? zeros : dy.rowAddress(begin + i) + columnBytes;
        }
    }
}
