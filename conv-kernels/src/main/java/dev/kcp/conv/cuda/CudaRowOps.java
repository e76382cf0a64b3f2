package dev.kcp.conv.cuda;

import dev.kcp.conv.RowOps;
import dev.kcp.conv.RowTable;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.KernelModule;
import dev.kcp.cuda.Launcher;
import dev.kcp.cuda.PinnedBlocks;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.bytedeco.cuda.cudart.CUfunc_st;

/** Row operations on one GPU, queued on the engine's stream unless a call names another. */
final class CudaRowOps implements RowOps, AutoCloseable {
    private static final int CHUNK_BYTES = 16;
    static final int BLOCK_THREADS = 256;
    // Fields of MoveArgs in rows.cu, the longer of the two arguments.
    static final int MOVES = 0;
    static final int SOURCE = 1;
    static final int SOURCE_PITCH = SOURCE + MOST_SOURCES;
    static final int TARGET = SOURCE_PITCH + MOST_SOURCES;
    static final int TARGET_PITCH = TARGET + MOST_TARGETS;
    static final int ROW_CHUNKS = TARGET_PITCH + MOST_TARGETS;
    static final int WORDS = ROW_CHUNKS + 1;

    private final CudaStream stream;
    private final PinnedBlocks pinned;
    private final Launcher launcher;
    private final KernelModule module;
    private final CUfunc_st move;
    private final CUfunc_st addFloats;
    private final CUfunc_st addDoubles;

    CudaRowOps(CudaStream stream, PinnedBlocks pinned, boolean checked, KernelModule.Origin origin) {
        this.stream = stream;
        this.pinned = pinned;
        launcher = new Launcher(stream, WORDS, checked);
        module = KernelModule.load(CudaRowOps.class, stream.device(), "rows", origin);
        move = module.function("rows_move", 0);
        addFloats = module.function("rows_add_float", 0);
        addDoubles = module.function("rows_add_double", 0);
    }

    /** Integers on the device, copied there in stream order; an empty table has none. */
    private static final class Words implements Table {
        private final RowTable facts;
        private final Memory memory;
        private PinnedBlocks.Block staging;

        Words(RowTable facts, Memory memory, PinnedBlocks.Block staging) {
            this.facts = facts;
            this.memory = memory;
            this.staging = staging;
        }

        @Override
        public int length() {
            return facts.length();
        }

        @Override
        public void close() {
            memory.close();
            if (staging != null) {
                staging.giveBack();
                staging = null;
            }
        }
    }

    private static Words own(Table table) {
        if (!(table instanceof Words words)) {
            throw new IllegalArgumentException("table of another engine: table=" + table);
        }
        return words;
    }

    @Override
    public Table moves(int[] quads) {
        return table(quads, RowTable.moves(quads));
    }

    @Override
    public Table additions(int[] pairs) {
        return table(pairs, RowTable.additions(pairs));
    }

    private Table table(int[] words, RowTable facts) {
        if (words.length == 0) {
            return new Words(facts, stream.allocate(0), null);
        }
        stream.device().makeCurrent();
        long bytes = (long) words.length * Integer.BYTES;
        PinnedBlocks.Block staging = pinned.take(bytes);
        MemorySegment.copy(MemorySegment.ofArray(words), 0, HostMemory.ALL, staging.address(), bytes);
        Memory memory = stream.allocate(bytes);
        stream.copyToDevice(staging.address(), memory.address(), bytes);
        staging.use(stream);
        return new Words(facts, memory, staging);
    }

    @Override
    public synchronized void move(Table moves, List<Tensor> sources, List<Tensor> targets, long queue) {
        Device device = stream.device().device();
        long rowBytes = own(moves).facts.checkMove(sources, targets, device);
        if (moves.length() == 0) {
            return;
        }
        launcher.set(MOVES, own(moves).memory.address());
        for (int i = 0; i < sources.size(); i++) {
            Tensor source = sources.get(i);
            launcher.set(SOURCE + i, source == null || source.rows() == 0 ? 0 : source.address());
            launcher.set(SOURCE_PITCH + i, source == null ? 0 : source.pitchBytes());
        }
        for (int i = 0; i < targets.size(); i++) {
            Tensor target = targets.get(i);
            launcher.set(TARGET + i, target == null || target.rows() == 0 ? 0 : target.address());
            launcher.set(TARGET_PITCH + i, target == null ? 0 : target.pitchBytes());
        }
        long chunks = rowBytes / CHUNK_BYTES;
        launcher.set(ROW_CHUNKS, chunks);
        int blocks = Math.clamp((chunks + BLOCK_THREADS - 1) / BLOCK_THREADS, 1, 8);
        stream.device().makeCurrent();
        launcher.queue(queue);
        try {
            launcher.launch("rows_move", move, moves.length(), blocks, BLOCK_THREADS, 1, 0, false);
        } finally {
            launcher.queue(0);
        }
    }

    @Override
    public synchronized void add(Table additions, Tensor rows) {
        own(additions).facts.checkAdd(rows, stream.device().device());
        if (additions.length() == 0 || rows.elements() == 0) {
            return;
        }
        long elements = rows.elements() / rows.extent(0);
        launcher.setAll(own(additions).memory.address(), additions.length(), rows.address(), elements);
        boolean doubles = rows.dtype() == DType.F64;
        stream.device().makeCurrent();
        launcher.launch(
                doubles ? "rows_add_double" : "rows_add_float",
                doubles ? addDoubles : addFloats,
                (elements + BLOCK_THREADS - 1) / BLOCK_THREADS,
                1,
                BLOCK_THREADS,
                1,
                0,
                false);
    }

    @Override
    public void copyColumns(Tensor from, long fromColumn, Tensor to, long toColumn, long columns) {
        RowTable.checkColumns(
                from, fromColumn, to, toColumn, columns, stream.device().device());
        if (from.rows() == 0 || columns == 0) {
            return;
        }
        long elementBytes = from.dtype().bytes();
        stream.copyRows(
                from.address() + fromColumn * elementBytes,
                from.pitchBytes(),
                to.address() + toColumn * elementBytes,
                to.pitchBytes(),
                columns * elementBytes,
                from.rows());
    }

    @Override
    public void zero(Tensor tensor) {
        RowTable.checkZero(tensor, stream.device().device());
        stream.fill(
                tensor.address(), (byte) 0, tensor.elements() * tensor.dtype().bytes());
    }

    @Override
    public void close() {
        CloseStack.closeAll(launcher, module);
    }
}
