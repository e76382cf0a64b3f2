package dev.kcp.conv.cpu;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.TreeSums;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * The programs on the CPU. Threads share rows and channels, never a sum: bits do not depend on how many there are. Calls
 * from several threads run one after another.
 */
public final class CpuConvEngine implements ConvEngine {
    /** Rows of one task of forward. */
    private static final int TASK_ROWS = 64;

    private final boolean vectors;
    private final Workers workers;
    private final RowOps rowOps = new HostRowOps();
    private final Scratch[] scratch;
    private Memory planes = Memory.allocateHost(0);
    private Memory zeros = Memory.allocateHost(0);
    /** Layers of one step see one batch; it is known by its offsets, not by who holds them. */
    private int[] lastOffsets;

    private ShardTables lastBatch;
    private boolean closed;

    /**
     * @param threads threads that compute, the caller's among them; at least 1
     */
    public CpuConvEngine(int threads) {
        this(threads, true);
    }

    /**
     * @param vectors false to compute one channel at a time: the same bits, many times slower once the JVM is warm, and
     *     several times faster in the first moments of a process, before vector code is compiled
     */
    public CpuConvEngine(int threads, boolean vectors) {
        this.vectors = vectors;
        workers = new Workers(threads);
        scratch = new Scratch[threads];
        for (int i = 0; i < threads; i++) {
            scratch[i] = new Scratch(vectors);
        }
    }

    @Override
    public Device device() {
        return Device.CPU;
    }

    @Override
    public Shard shard(ShardTables tables, int fragments) {
        return tables;
    }

    @Override
    public Shard update(Shard shard, ShardTables tables) {
        return tables;
    }

    @Override
    public void holdBack(long queue) {}

    @Override
    public synchronized Shard batch(Tensor cuSeqlens, long rows, boolean allowSlack) {
        int[] offsets = ConvChecks.offsets(cuSeqlens, rows, allowSlack);
        if (!Arrays.equals(offsets, lastOffsets)) {
            lastBatch = ShardTables.ofDocuments(offsets);
            lastOffsets = offsets;
        }
        return lastBatch;
    }

    @Override
    public RowOps rowOps() {
        return rowOps;
    }

    @Override
    public Tensor allocate(DType dtype, long... shape) {
        return Tensor.zeros(dtype, shape);
    }

    @Override
    public void round(Tensor sums, Tensor dweight, Tensor dbias) {
        TreeSums.store(sums, dweight, dbias);
    }

    @Override
    public List<String> programs(Operands in, ConvOptions options) {
        String name = (vectors ? "cpu-v" + Lanes.FLOAT.vectorBitSize() : "cpu-scalar") + "-"
                + options.policy().name().toLowerCase(Locale.ROOT) + (in.bias() == null ? "" : "-bias");
        return List.of("forward-" + name, "backward-" + name);
    }

    @Override
    public synchronized void forward(Shard shard, Operands in, ConvOptions options, Part part, Tensor y) {
        ShardTables tables = (ShardTables) shard;
        RowSource rows = prepare(tables, in);
        if (part == Part.SEAM) {
            workers.run(tables.fragments(), (worker, f) -> {
                int begin = tables.begin(f);
                forwardRun(worker, rows, in, f, begin, begin + tables.seamRows(f), y);
            });
            return;
        }
        workers.run(tasks(tables.rows()), (worker, task) -> {
            int taskEnd = Math.min(tables.rows(), (task + 1) * TASK_ROWS);
            int row = task * TASK_ROWS;
            for (int f = tables.fragmentOf(row); row < taskEnd; f++) {
                int end = Math.min(taskEnd, tables.end(f));
                forwardRun(worker, rows, in, f, Math.max(row, tables.begin(f) + tables.seamRows(f)), end, y);
                row = Math.max(row, end);
            }
        });
        zeroSlack(tables, y);
    }

    private void forwardRun(int worker, RowSource rows, Operands in, int fragment, int begin, int end, Tensor y) {
        Scratch own = scratch[worker];
        int channels = (int) in.channels();
        for (int i = begin; i < end; i += Scratch.TILE_ROWS) {
            int count = Math.min(Scratch.TILE_ROWS, end - i);
            for (int c = 0; c < channels; c += Scratch.BLOCK_CHANNELS) {
                int width = Math.min(Scratch.BLOCK_CHANNELS, channels - c);
                long p = preactivations(own, rows, fragment, i, count, c, width, channels);
                ActivationRows.silu(
                        p, width * 4L, count, own.whole(width), width, y.rowAddress(i) + c * 2L, y.pitchBytes());
            }
        }
    }

    private long preactivations(
            Scratch own, RowSource rows, int fragment, int begin, int count, int c, int width, int channels) {
        rows.window(fragment, begin, begin + count, c * 2L, own.window);
        long p = own.takeRows(count, width * 4L);
        PreactivationRows.run(
                own.window, count, planes.address() + c * 4L, channels * 4L, own.whole(width), width, p, width * 4L);
        return p;
    }

    @Override
    public synchronized void head(Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor head) {
        ShardTables tables = (ShardTables) shard;
        RowSource rows = prepare(tables, in);
        int channels = (int) in.channels();
        workers.run(tables.fragments(), (worker, f) -> {
            int count = tables.seamRows(f);
            Scratch own = scratch[worker];
            for (int c = 0; c < channels && count > 0; c += Scratch.BLOCK_CHANNELS) {
                int width = Math.min(Scratch.BLOCK_CHANNELS, channels - c);
                long g = preactivations(own, rows, f, tables.begin(f), count, c, width, channels);
                fillRows(own.dy, dy, tables.begin(f), count, c * 2L);
                ActivationRows.gradient(options.policy(), g, width * 4L, count, own.whole(width), width, own.dy);
                for (int r = 0; r < count; r++) {
                    HostMemory.copy(g + r * width * 4L, head.rowAddress(tables.headBegin(f) + r) + c * 4L, width * 4L);
                }
            }
        });
    }

    @Override
    public synchronized void main(
            Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor dx, Tensor tail, Tensor sums) {
        ShardTables tables = (ShardTables) shard;
        RowSource rows = prepare(tables, in);
        new BackwardMain(tables, in, options, rows, planes.address(), zeros.address(), dy, dx, tail, sums)
                .run(workers, scratch);
        if (dx != null) {
            zeroSlack(tables, dx);
        }
    }

    @Override
    public synchronized void owed(Shard shard, Operands in, Tensor tail, Tensor received, Tensor dx) {
        ShardTables tables = (ShardTables) shard;
        prepare(tables, in);
        int channels = (int) in.channels();
        workers.run(tables.fragments(), (worker, f) -> {
            int count = tables.owedRows(f);
            if (count > 0) {
                long[] g = new long[2 * ShardTables.HISTORY];
                int present = 0;
                for (; present < count; present++) {
                    g[present] = tail.rowAddress(tables.tailBegin(f) + present);
                }
                for (int j = 0; j < ShardTables.HISTORY && tables.owedRow(f, j) >= 0; j++) {
                    g[present++] = received.rowAddress(tables.owedRow(f, j));
                }
                InputGradientRows.run(
                        g,
                        present,
                        count,
                        dx.rowAddress(tables.end(f) - count),
                        dx.pitchBytes(),
                        planes.address(),
                        channels * (long) Float.BYTES,
                        scratch[worker].whole(channels),
                        channels);
            }
        });
    }

    /** Makes the taps' planes and the row of zeros; both are kept and grown only when too small. */
    private RowSource prepare(ShardTables tables, Operands in) {
        if (closed) {
            throw new IllegalStateException("the engine was closed: device=" + device());
        }
        long channels = in.channels();
        planes = atLeast(planes, Taps.bytes(channels));
        zeros = atLeast(zeros, channels * Float.BYTES);
        Taps.fill(planes.address(), in.weight(), in.bias());
        return RowSource.of(tables, in, zeros.address());
    }

    private static Memory atLeast(Memory memory, long bytes) {
        if (memory.bytes() >= bytes) {
            return memory;
        }
        memory.close();
        return Memory.allocateHost(bytes);
    }

    /** Fills in the addresses of rows of a tensor. */
    static void fillRows(long[] addresses, Tensor tensor, int begin, int count, long columnBytes) {
        for (int i = 0; i < count; i++) {
            addresses[i] = tensor.rowAddress(begin + i) + columnBytes;
        }
    }

    private static int tasks(int rows) {
        return (rows + TASK_ROWS - 1) / TASK_ROWS;
    }

    private static void zeroSlack(ShardTables tables, Tensor rows) {
        for (long i = tables.rows(); i < rows.rows(); i++) {
            HostMemory.zero(rows.rowAddress(i), rows.columns() * rows.dtype().bytes());
        }
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            workers.close();
            for (Scratch own : scratch) {
                own.close();
            }
            planes.close();
            zeros.close();
        }
    }
}
