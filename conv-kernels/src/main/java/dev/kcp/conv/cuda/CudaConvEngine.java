package dev.kcp.conv.cuda;

import static dev.kcp.Arguments.present;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.ProgramChecks;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.cuda.CallArguments.Field;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.KernelModule.Origin;
import dev.kcp.cuda.Launcher;
import dev.kcp.cuda.PinnedBlocks;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.List;

/**
 * The programs on one GPU and one stream. Every call returns as soon as its kernels are on the stream; the host reads no
 * device memory, so offsets on the device may change from call to call and from graph replay to graph replay. Calls from
 * several threads run one after another.
 *
 * <p>Tensors start at multiples of 16 bytes. Work space between the programs belongs to the caller, or to the graph that
 * {@link CudaGraph} captures, or to the engine, where it grows when a larger batch comes; {@link #prepare(long, long)} makes
 * the engine's before a capture by somebody else, inside which nothing may be allocated.
 */
public final class CudaConvEngine implements ConvEngine {
    private final CudaStream stream;
    private final CloseStack owned;
    private final CallArguments arguments;
    private final ProgramLaunches launches;
    private final PinnedBlocks pinned;
    private final CudaRowOps rowOps;
    private final OwnRoom ownRoom;
    /** Null but in checked mode. */
    private final OffsetCheck offsetCheck;

    private boolean closed;

    /** @param owned what is closed after everything that is made here; taken over */
    private CudaConvEngine(CudaStream stream, CloseStack owned, boolean checked, Origin origin) {
        this.stream = stream;
        this.owned = owned;
        Kernels kernels = owned.push(new Kernels(stream.device(), origin));
        Launcher launcher = owned.push(new Launcher(stream, CallArguments.FIELDS, checked));
        arguments = new CallArguments(launcher);
        launches = new ProgramLaunches(kernels, launcher);
        pinned = owned.push(new PinnedBlocks(stream.device()));
        rowOps = owned.push(new CudaRowOps(stream, pinned, checked, origin));
        // Kernels, arguments and blocks may be in use until then.
        owned.push(stream::synchronize);
        offsetCheck = checked ? owned.push(new OffsetCheck(stream, kernels)) : null;
        ownRoom = new OwnRoom(stream);
        owned.push(ownRoom::free);
    }

    /**
     * The programs on a stream, borrowed with its device: they must outlive the engine.
     *
     * @param checked for finding mistakes: a kernel looks at the offsets before each call on a batch, every launch is waited
     *     for and a failed one named; nothing can be captured
     * @throws dev.kcp.KcpException with code MISSING_DEVICE if this build has no kernels for the GPU and they cannot be
     *     compiled here
     */
    public static CudaConvEngine on(CudaStream stream, boolean checked) {
        return on(stream, checked, Origin.BUILT_OR_COMPILED);
    }

    /** As above, from the given kernels. */
    static CudaConvEngine on(CudaStream stream, boolean checked, Origin origin) {
        return make(stream, new CloseStack(), checked, origin);
    }

    /**
     * The programs on a new stream of a device; the engine closes both.
     *
     * @param ordinal the device's number among the visible ones
     */
    public static CudaConvEngine open(int ordinal) {
        CloseStack owned = new CloseStack();
        CudaStream stream;
        try {
            stream = owned.push(CudaStream.create(owned.push(CudaDevice.open(ordinal))));
        } catch (RuntimeException | Error e) {
            owned.closeAfter(e);
            throw e;
        }
        return make(stream, owned, false, Origin.BUILT_OR_COMPILED);
    }

    private static CudaConvEngine make(CudaStream stream, CloseStack owned, boolean checked, Origin origin) {
        try {
            return new CudaConvEngine(stream, owned, checked, origin);
        } catch (RuntimeException | Error e) {
            owned.closeAfter(e);
            throw e;
        }
    }

    /** The stream that all work goes to. */
    public CudaStream stream() {
        return stream;
    }

    @Override
    public Device device() {
        return stream.device().device();
    }

    @Override
    public long queue() {
        return stream.handle();
    }

    /** None: forward keeps nothing between its blocks. */
    @Override
    public long forwardWorkspaceBytes(long rows, long channels) {
        ConvChecks.sizes(rows, channels);
        return 0;
    }

    @Override
    public long backwardWorkspaceBytes(long rows, long channels) {
        ConvChecks.sizes(rows, channels);
        return CallerRoom.bytes(rows, channels);
    }

    @Override
    public Memory allocateWorkspace(long bytes) {
        Memory memory = stream.allocate(bytes);
        stream.fill(memory.address(), (byte) 0, bytes);
        return memory;
    }

    @Override
    public synchronized void prepare() {
        checkOpen();
        stream.device().makeCurrent();
        launches.loadAll();
    }

    /** As {@link #prepare()}, and makes the engine's work space for batches up to this size: later calls allocate nothing. */
    public synchronized void prepare(long rows, long channels) {
        ConvChecks.sizes(rows, channels);
        prepare();
        ownRoom.reserve(rows, channels);
    }

    @Override
    public List<String> programs(Operands in, ConvOptions options, boolean isSharded) {
        return List.of(
                "cuda-" + ConvProgram.forwardMain(in, options, isSharded),
                "cuda-" + ConvProgram.backwardMain(in, options, isSharded));
    }

    @Override
    public synchronized Shard shard(ShardTables tables, int fragments) {
        checkOpen();
        stream.device().makeCurrent();
        return CudaShard.of(present("tables", tables), fragments, stream, pinned);
    }

    @Override
    public synchronized Shard update(Shard shard, ShardTables tables) {
        checkOpen();
        stream.device().makeCurrent();
        ProgramChecks.own(CudaShard.class, shard).update(present("tables", tables), stream, pinned);
        return shard;
    }

    @Override
    public synchronized void holdBack(long queue) {
        checkOpen();
        try (CudaEvent now = CudaEvent.untimed(stream.device())) {
            now.record(stream);
            now.holdBack(CudaStream.borrow(stream.device(), queue));
        }
    }

    @Override
    public synchronized Shard batch(Tensor cuSeqlens, long rows, boolean allowSlack) {
        checkOpen();
        ConvChecks.offsetsTensor(cuSeqlens, device());
        ConvChecks.sizes(rows, 0);
        if (offsetCheck != null) {
            refuseCapture();
            offsetCheck.run(cuSeqlens, rows, allowSlack);
        }
        return CudaShard.batch(cuSeqlens, (int) rows);
    }

    private void refuseCapture() {
        if (stream.isCapturing()) {
            throw new IllegalStateException(
                    "checked mode waits after each launch, which a graph capture cannot hold: device=" + device());
        }
    }

    @Override
    public RowOps rowOps() {
        return rowOps;
    }

    @Override
    public Tensor allocate(DType dtype, long... shape) {
        return stream.uninitialized(dtype, shape);
    }

    @Override
    public synchronized void forward(Shard shard, Operands in, ConvOptions options, Tensor y, Memory workspace) {
        ProgramChecks.forward(device(), shard, in, options, y, workspace, 0);
        CudaShard local = begin(shard, in);
        if (y.rows() > 0) {
            arguments.out("y", y);
            arguments.set(Field.ROWS, y.rows());
            launches.forwardMain(local, in, options, y.rows());
        }
    }

    @Override
    public synchronized void seam(Shard shard, Operands in, ConvOptions options, Tensor y, long queue) {
        ProgramChecks.seam(device(), shard, in, options, y);
        CudaShard local = begin(shard, in);
        if (y.rows() > 0 && local.headRows() > 0) {
            arguments.out("y", y);
            arguments.set(Field.ROWS, y.rows());
            launches.forwardSeam(local, in, options, queue);
        }
    }

    @Override
    public synchronized void head(Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor head) {
        ProgramChecks.head(device(), shard, in, options, dy, head);
        CudaShard local = begin(shard, in);
        if (local.headRows() > 0) {
            arguments.set(Field.HEAD, "head", head);
            try (WorkRoom room = room(null)) {
                setDy(dy, room, in.channels());
                launches.head(local, in, options);
            }
        }
    }

    @Override
    public synchronized void main(
            Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor dx, Tensor tail, Tensor sums) {
        ProgramChecks.main(device(), shard, in, options, dy, dx, tail, sums);
        CudaShard local = begin(shard, in);
        if (tail != null && local.tailRows() > 0) {
            arguments.set(Field.TAIL, "tail", tail);
        }
        if (sums != null && local.nodeCount() > 0) {
            arguments.set(Field.SUMS, "sums", sums);
        }
        try (WorkRoom room = room(null)) {
            mainAndReduce(local, in, options, dy, dx, sums != null, room);
        }
        if (dx != null && local.hasTables()) {
            long slack = dx.rows() - local.rows();
            stream.zeroRows(
                    dx.rowAddress(local.rows()),
                    dx.pitchBytes(),
                    dx.columns() * dx.dtype().bytes(),
                    slack);
        }
    }

    @Override
    public synchronized void backward(
            Shard batch, Operands in, ConvOptions options, Tensor dy, Gradients out, Memory workspace) {
        ProgramChecks.backward(device(), batch, in, options, dy, out, workspace, roomBytes(in));
        CudaShard local = begin(batch, in);
        if (local.rows() == 0) {
            zero("dweight", out.dweight());
            zero("dbias", out.dbias());
            return;
        }
        arguments.gradients(out.dweight(), out.dbias());
        try (WorkRoom room = room(workspace)) {
            mainAndReduce(local, in, options, dy, out.dx(), out.wantsSums(), room);
        }
    }

    /** 0 for operands that will be refused. */
    private static long roomBytes(Operands in) {
        return in == null || in.x() == null || in.x().rows() > ConvChecks.MOST_ROWS
                ? 0
                : CallerRoom.bytes(in.x().rows(), in.channels());
    }

    /** Closed after the call. */
    private WorkRoom room(Memory workspace) {
        if (workspace != null) {
            return new CallerRoom(stream, workspace);
        }
        return stream.isRecording() ? new GraphRoom(stream) : ownRoom;
    }

    private void zero(String name, Tensor gradient) {
        if (gradient != null) {
            stream.fill(
                    CallArguments.address(name, gradient),
                    (byte) 0,
                    gradient.elements() * gradient.dtype().bytes());
        }
    }

    private void mainAndReduce(
            CudaShard local, Operands in, ConvOptions options, Tensor dy, Tensor dx, boolean wantsSums, WorkRoom room) {
        long channels = in.channels();
        if (local.groups() == 0) {
            return;
        }
        if (dx == null) {
            arguments.scrap(room.scrap(channels));
        } else {
            arguments.out("dx", dx);
        }
        if (wantsSums) {
            long rowBytes =
                    channels * in.sumPlanes() * options.policy().sumType().bytes();
            arguments.set(Field.SCRATCH, room.sums(local.scratchRows() * rowBytes, channels));
        }
        setDy(dy, room, channels);
        launches.backwardMain(local, in, options);
        if (wantsSums) {
            launches.backwardReduce(local, in, options);
        }
    }

    @Override
    public synchronized void owed(Shard shard, Operands in, Tensor tail, Tensor received, Tensor dx) {
        ProgramChecks.owed(device(), shard, in, tail, received, dx);
        CudaShard local = begin(shard, in);
        if (local.tailRows() > 0) {
            arguments.set(Field.TAIL, "tail", tail);
            if (received != null && received.rows() > 0) {
                arguments.set(Field.RECEIVED, "received", received);
            }
            arguments.out("dx", dx);
            launches.owed(local, in);
        }
    }

    @Override
    public synchronized void round(Tensor sums, Tensor dweight, Tensor dbias) {
        checkOpen();
        ProgramChecks.round(device(), sums, dweight, dbias);
        stream.device().makeCurrent();
        arguments.beginSums(sums);
        arguments.gradients(dweight, dbias);
        launches.round(sums);
    }

    private CudaShard begin(Shard shard, Operands in) {
        checkOpen();
        stream.device().makeCurrent();
        CudaShard local = ProgramChecks.own(CudaShard.class, shard);
        arguments.begin(local, in);
        return local;
    }

    private void setDy(Tensor dy, WorkRoom room, long channels) {
        if (dy == null) {
            arguments.noDy(room.zeros(channels));
        } else {
            arguments.dy(dy);
        }
    }

    private void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the engine was closed: device=" + device());
        }
    }

    @Override
    public synchronized void close() {
        closed = true;
        owned.close();
    }
}
