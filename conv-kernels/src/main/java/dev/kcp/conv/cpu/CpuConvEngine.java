package dev.kcp.conv.cpu;

import static dev.kcp.Arguments.present;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.ProgramChecks;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.tree.TreeSums;
import dev.kcp.tensor.CloseStack;
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
    private final boolean vectors;
    private final Workers workers;
    private final RowOps rowOps = new HostRowOps();
    private final Scratch[] scratch;
    private Memory ownSpace = Memory.allocateHost(0);
    /** Layers of one step see one batch; it is known by its offsets, not by who holds them. */
    private int[] lastOffsets;

    private ShardTables lastBatch;
    private boolean closed;

    /**
     * The CPU's programs, by vectors.
     *
     * @param threads threads that compute, the caller's among them; at least 1
     */
    public CpuConvEngine(int threads) {
        this(threads, true);
    }

    /**
     * The CPU's programs, by vectors or one channel at a time.
     *
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
        if (fragments < present("tables", tables).fragments()) {
            throw new IllegalArgumentException(
                    "no room for the fragments: fragments=" + tables.fragments() + " room=" + fragments);
        }
        return tables;
    }

    @Override
    public Shard update(Shard shard, ShardTables tables) {
        present("tables", tables);
        if (tables.rows() != ProgramChecks.own(ShardTables.class, shard).rows()
                || tables.headRows() != shard.headRows()
                || tables.tailRows() != shard.tailRows()) {
            throw new IllegalArgumentException("another shape of shard: rows=" + shard.rows() + "," + tables.rows()
                    + " headRows=" + shard.headRows() + "," + tables.headRows() + " tailRows=" + shard.tailRows() + ","
                    + tables.tailRows());
        }
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

    /** Nothing: the programs are this class's code. */
    @Override
    public void prepare() {}

    @Override
    public long forwardWorkspaceBytes(long rows, long channels) {
        ConvChecks.sizes(rows, channels);
        return CallSpace.bytes(channels);
    }

    @Override
    public long backwardWorkspaceBytes(long rows, long channels) {
        ConvChecks.sizes(rows, channels);
        return CallSpace.bytesWithSums(channels);
    }

    @Override
    public Memory allocateWorkspace(long bytes) {
        return Memory.allocateHost(bytes);
    }

    @Override
    public void round(Tensor sums, Tensor dweight, Tensor dbias) {
        ProgramChecks.round(device(), sums, dweight, dbias);
        TreeSums.store(sums, dweight, dbias);
    }

    @Override
    public List<String> programs(Operands in, ConvOptions options, boolean isSharded) {
        String name = (vectors ? "cpu-v" + Lanes.FLOAT.vectorBitSize() : "cpu-scalar") + "-"
                + options.policy().name().toLowerCase(Locale.ROOT) + (in.bias() == null ? "" : "-bias");
        return List.of("forward-" + name, "backward-" + name);
    }

    @Override
    public synchronized void forward(Shard shard, Operands in, ConvOptions options, Tensor y, Memory workspace) {
        ShardTables tables = ProgramChecks.own(ShardTables.class, shard);
        ProgramChecks.forward(Device.CPU, shard, in, options, y, workspace, spaceBytes(in, false));
        ForwardTiles tiles = ForwardTiles.of(tables, in, begin(in, workspace));
        tiles.main(workers, scratch, y);
        zeroSlack(tiles.tables(), y);
    }

    @Override
    public synchronized void seam(Shard shard, Operands in, ConvOptions options, Tensor y, long queue) {
        ShardTables tables = ProgramChecks.own(ShardTables.class, shard);
        ProgramChecks.seam(Device.CPU, shard, in, options, y);
        ForwardTiles.of(tables, in, begin(in, null)).seam(workers, scratch, y);
    }

    @Override
    public synchronized void head(Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor head) {
        ShardTables tables = ProgramChecks.own(ShardTables.class, shard);
        ProgramChecks.head(Device.CPU, shard, in, options, dy, head);
        ForwardTiles.of(tables, in, begin(in, null)).head(workers, scratch, options.policy(), dy, head);
    }

    @Override
    public synchronized void main(
            Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor dx, Tensor tail, Tensor sums) {
        ShardTables tables = ProgramChecks.own(ShardTables.class, shard);
        ProgramChecks.main(Device.CPU, shard, in, options, dy, dx, tail, sums);
        main(tables, in, options, dy, dx, tail, sums, begin(in, null));
    }

    private void main(
            ShardTables tables,
            Operands in,
            ConvOptions options,
            Tensor dy,
            Tensor dx,
            Tensor tail,
            Tensor sums,
            CallSpace space) {
        new BackwardMain(tables, in, options, space, dy, dx, tail, sums).run(workers, scratch);
        if (dx != null) {
            zeroSlack(tables, dx);
        }
    }

    @Override
    public synchronized void backward(
            Shard batch, Operands in, ConvOptions options, Tensor dy, Gradients out, Memory workspace) {
        ShardTables tables = ProgramChecks.own(ShardTables.class, batch);
        ProgramChecks.backward(Device.CPU, batch, in, options, dy, out, workspace, spaceBytes(in, true));
        CallSpace space = begin(in, workspace);
        try (Tensor sums = out.wantsSums() ? batchSums(tables, in, options, workspace) : null) {
            main(tables, in, options, dy, out.dx(), null, sums, space);
            if (sums != null) {
                round(sums, out.dweight(), out.dbias());
            }
        }
    }

    private Tensor batchSums(ShardTables tables, Operands in, ConvOptions options, Memory workspace) {
        DType type = options.policy().sumType();
        return workspace == null
                ? allocate(type, tables.nodeCount(), in.sumPlanes(), in.channels())
                : CallSpace.sums(workspace, type, tables.nodeCount(), in.sumPlanes(), in.channels());
    }

    @Override
    public synchronized void owed(Shard shard, Operands in, Tensor tail, Tensor received, Tensor dx) {
        ShardTables tables = ProgramChecks.own(ShardTables.class, shard);
        ProgramChecks.owed(Device.CPU, shard, in, tail, received, dx);
        CallSpace space = begin(in, null);
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
                        space.planes(),
                        channels * (long) Float.BYTES,
                        scratch[worker].whole(channels),
                        channels);
            }
        });
    }

    /** 0 for operands that will be refused. */
    private static long spaceBytes(Operands in, boolean withSums) {
        long channels = in == null || in.x() == null ? 0 : in.channels();
        return withSums ? CallSpace.bytesWithSums(channels) : CallSpace.bytes(channels);
    }

    /** Makes the taps' planes and the row of zeros, in the caller's memory or in a block that is kept and grows. */
    private CallSpace begin(Operands in, Memory workspace) {
        if (closed) {
            throw new IllegalStateException("the engine was closed: device=" + device());
        }
        if (workspace != null) {
            return CallSpace.fill(workspace, in);
        }
        long bytes = CallSpace.bytes(in.channels());
        if (ownSpace.bytes() < bytes) {
            ownSpace.close();
            ownSpace = Memory.allocateHost(bytes);
        }
        return CallSpace.fill(ownSpace, in);
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
            try (CloseStack owned = new CloseStack()) {
                owned.push(ownSpace);
                for (Scratch own : scratch) {
                    owned.push(own);
                }
                owned.push(workers);
            }
        }
    }
}
