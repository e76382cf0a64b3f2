package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cuda.KernelArguments.Field;
import dev.kcp.conv.cuda.Kernels.Kernel;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * The programs on one GPU and one stream. Every call returns as soon as its kernels are on the stream; the host reads no
 * device memory, so offsets on the device may change from call to call and from graph replay to graph replay. Calls from
 * several threads run one after another.
 *
 * <p>Tensors start at multiples of 16 bytes. Work space between the programs belongs to the engine and grows when a larger
 * batch comes; {@link #prepare} makes it before a graph capture, inside which nothing may be allocated.
 */
public final class CudaConvEngine implements ConvEngine {
    private static final int ALIGNMENT_BYTES = 16;

    private final CudaStream stream;
    private final CudaDevice ownedDevice;
    private final boolean checked;
    private final Kernels kernels;
    private final ProgramRule rule;
    private final KernelArguments arguments = new KernelArguments();
    private final Launcher launcher;
    private final PinnedBlocks pinned;
    private final CudaRowOps rowOps;
    /** One row of zeros, where dy is null, and one row that nobody reads, where dx is. */
    private Memory spareRows;

    private Memory scratch;
    private final List<Memory> retired = new ArrayList<>();
    private boolean closed;

    private CudaConvEngine(CudaStream stream, CudaDevice ownedDevice, boolean checked) {
        this.stream = stream;
        this.ownedDevice = ownedDevice;
        this.checked = checked;
        kernels = new Kernels(stream.device());
        rule = new ProgramRule(kernels);
        launcher = new Launcher(stream, arguments.address(), checked);
        pinned = new PinnedBlocks(stream.device());
        rowOps = new CudaRowOps(stream, pinned, checked);
        spareRows = stream.allocate(0);
        scratch = stream.allocate(0);
    }

    /**
     * The programs on a stream, borrowed with its device: they must outlive the engine.
     *
     * @param checked for finding mistakes: offsets are read back and checked, every launch is waited for and a failed one
     *     named
     * @throws dev.kcp.KcpException with code MISSING_DEVICE if this build or this GPU has no kernels
     */
    public static CudaConvEngine on(CudaStream stream, boolean checked) {
        return new CudaConvEngine(stream, null, checked);
    }

    /**
     * The programs on a new stream of a device; the engine closes both.
     *
     * @param ordinal the device's number among the visible ones
     */
    public static CudaConvEngine open(int ordinal) {
        CudaDevice device = CudaDevice.open(ordinal);
        try {
            return new CudaConvEngine(CudaStream.create(device), device, false);
        } catch (RuntimeException e) {
            device.close();
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

    /** Bytes of work space for batches of this size, whatever the options. */
    public static long workspaceBytes(long rows, long channels) {
        long groups = (rows + ConvProgram.GROUP_ROWS - 1) / ConvProgram.GROUP_ROWS;
        return Math.multiplyExact(
                Math.multiplyExact(groups, 5L * SiluGradPolicy.FP32.sumType().bytes()), channels);
    }

    /** Loads every program and makes the work space for batches up to this size, so that later calls allocate nothing. */
    public synchronized void prepare(long rows, long channels) {
        checkOpen();
        rule.loadAll();
        scratch = atLeast(scratch, workspaceBytes(rows, channels));
        spareRows(channels);
    }

    @Override
    public List<String> programs(Operands in, ConvOptions options) {
        return List.of(
                "cuda-" + ConvProgram.forwardMain(in, options, false),
                "cuda-" + ConvProgram.backwardMain(in, options, false));
    }

    @Override
    public synchronized Shard shard(ShardTables tables, int fragments) {
        checkOpen();
        stream.device().makeCurrent();
        return CudaShard.of(tables, fragments, stream, pinned);
    }

    @Override
    public synchronized Shard update(Shard shard, ShardTables tables) {
        checkOpen();
        stream.device().makeCurrent();
        ((CudaShard) shard).update(tables, stream, pinned);
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
    public Shard batch(Tensor cuSeqlens, long rows, boolean allowSlack) {
        if (cuSeqlens.dtype() != DType.I32
                || cuSeqlens.rank() != 1
                || cuSeqlens.columns() == 0
                || !cuSeqlens.device().equals(device())) {
            throw new IllegalArgumentException(
                    "cu_seqlens must be INT32 [documents + 1] on " + device() + ": cuSeqlens=" + cuSeqlens);
        }
        if (checked) {
            try (Tensor host = stream.download(cuSeqlens)) {
                ConvChecks.offsets(host, rows, allowSlack);
            }
        }
        return CudaShard.batch(cuSeqlens.address(), Math.toIntExact(cuSeqlens.columns() - 1), rows);
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
    public synchronized void forward(Shard shard, Operands in, ConvOptions options, Part part, Tensor y) {
        CudaShard local = begin(shard, in);
        if (y.rows() == 0 || part == Part.SEAM && local.headRows() == 0) {
            return;
        }
        arguments.set(Field.OUT, address("y", y));
        arguments.set(Field.OUT_PITCH, y.pitchBytes());
        arguments.set(Field.ROWS, y.rows());
        long tiles = ConvProgram.tiles(in.channels());
        if (part == Part.SEAM) {
            launchUnits(rule.forwardSeam(options), local.fragments() * tiles);
        } else {
            Kernel kernel = rule.forwardMain(in, options, local.hasTables());
            int rowsPerWarp = kernel.program().rowsPerWarp();
            launchUnits(kernel, (y.rows() + rowsPerWarp - 1) / rowsPerWarp * tiles);
        }
    }

    @Override
    public synchronized void head(Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor head) {
        CudaShard local = begin(shard, in);
        if (local.headRows() > 0) {
            setDy(dy, in.channels());
            arguments.set(Field.HEAD, address("head", head));
            launchUnits(rule.backwardHead(options), local.fragments() * ConvProgram.tiles(in.channels()));
        }
    }

    @Override
    public synchronized void main(
            Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor dx, Tensor tail, Tensor sums) {
        CudaShard local = begin(shard, in);
        if (tail != null && local.tailRows() > 0) {
            arguments.set(Field.TAIL, address("tail", tail));
        }
        if (sums != null && local.nodeCount() > 0) {
            arguments.set(Field.SUMS, address("sums", sums));
        }
        mainAndReduce(local, in, options, dy, dx, sums != null);
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
    public synchronized void backward(Shard batch, Operands in, ConvOptions options, Tensor dy, Gradients out) {
        CudaShard local = begin(batch, in);
        if (local.rows() == 0) {
            zero(out.dweight());
            zero(out.dbias());
            return;
        }
        setGradients(out.dweight(), out.dbias());
        mainAndReduce(local, in, options, dy, out.dx(), out.wantsSums());
    }

    private void zero(Tensor gradient) {
        if (gradient != null) {
            stream.fill(
                    address("gradient", gradient),
                    (byte) 0,
                    gradient.elements() * gradient.dtype().bytes());
        }
    }

    private void mainAndReduce(
            CudaShard local, Operands in, ConvOptions options, Tensor dy, Tensor dx, boolean wantsSums) {
        long channels = in.channels();
        if (local.groups() == 0) {
            return;
        }
        long sumRowBytes =
                channels * in.sumPlanes() * options.policy().sumType().bytes();
        if (wantsSums) {
            scratch = atLeast(scratch, local.scratchRows() * sumRowBytes);
            arguments.set(Field.SCRATCH, scratch.address());
        }
        setDy(dy, channels);
        if (dx == null) {
            arguments.set(Field.OUT, spareRows(channels) + rowBytes(channels));
            arguments.set(Field.OUT_PITCH, 0);
        } else {
            arguments.set(Field.OUT, address("dx", dx));
            arguments.set(Field.OUT_PITCH, dx.pitchBytes());
        }
        Kernel kernel = rule.backwardMain(in, options, local.hasTables());
        launcher.launch(
                kernel.name(),
                kernel.function(),
                local.groups() * ConvProgram.tiles(channels),
                1,
                ConvProgram.blockThreads(),
                1,
                kernel.program().sharedBytes(),
                false);
        if (wantsSums && local.ranges() > 0) {
            Kernel reduce = rule.backwardReduce(options, local.hasTables());
            long columns = channels * in.sumPlanes();
            launcher.launch(reduce.name(), reduce.function(), (columns + 31) / 32, local.ranges(), 32, 8, 0, true);
        }
    }

    @Override
    public synchronized void owed(Shard shard, Operands in, Tensor tail, Tensor received, Tensor dx) {
        CudaShard local = begin(shard, in);
        if (local.tailRows() > 0) {
            arguments.set(Field.TAIL, address("tail", tail));
            arguments.set(Field.RECEIVED, received.rows() == 0 ? 0 : address("received", received));
            arguments.set(Field.OUT, address("dx", dx));
            arguments.set(Field.OUT_PITCH, dx.pitchBytes());
            launchUnits(rule.backwardOwed(), local.fragments() * ConvProgram.tiles(in.channels()));
        }
    }

    @Override
    public synchronized void round(Tensor sums, Tensor dweight, Tensor dbias) {
        checkOpen();
        arguments.clear();
        setGradients(dweight, dbias);
        arguments.set(Field.SUMS, sums.extent(0) == 0 ? 0 : address("sums", sums));
        arguments.set(Field.CHANNELS, sums.columns());
        arguments.set(Field.SUM_PLANES, sums.extent(1));
        Kernel kernel = rule.backwardRound(sums.dtype() == DType.F64);
        long columns = sums.columns() * sums.extent(1);
        stream.device().makeCurrent();
        launcher.launch(kernel.name(), kernel.function(), (columns + 255) / 256, 1, 256, 1, 0, false);
    }

    /** Fills in what every program reads. */
    private CudaShard begin(Shard shard, Operands in) {
        checkOpen();
        stream.device().makeCurrent();
        CudaShard local = (CudaShard) shard;
        arguments.clear();
        local.set(arguments);
        arguments.set(Field.X, in.x().rows() == 0 ? 0 : address("x", in.x()));
        arguments.set(Field.X_PITCH, in.x().pitchBytes());
        arguments.set(Field.ROWS, in.x().rows());
        arguments.set(Field.CHANNELS, in.channels());
        arguments.set(Field.WEIGHT, denseAddress("weight", in.weight()));
        arguments.set(Field.WEIGHT_IS_BF16, in.weight().dtype() == DType.BF16);
        if (in.bias() != null) {
            arguments.set(Field.BIAS, denseAddress("bias", in.bias()));
            arguments.set(Field.BIAS_IS_BF16, in.bias().dtype() == DType.BF16);
        }
        if (in.history() != null && in.history().rows() > 0) {
            arguments.set(Field.HISTORY, denseAddress("history", in.history()));
        }
        arguments.set(Field.SUM_PLANES, in.sumPlanes());
        return local;
    }

    private void setDy(Tensor dy, long channels) {
        if (dy == null) {
            arguments.set(Field.DY, spareRows(channels));
        } else {
            arguments.set(Field.DY, address("dy", dy));
            arguments.set(Field.DY_PITCH, dy.pitchBytes());
        }
    }

    private void setGradients(Tensor dweight, Tensor dbias) {
        if (dweight != null) {
            arguments.set(Field.DWEIGHT, denseAddress("dweight", dweight));
            arguments.set(Field.DWEIGHT_IS_BF16, dweight.dtype() == DType.BF16);
        }
        if (dbias != null) {
            arguments.set(Field.DBIAS, denseAddress("dbias", dbias));
            arguments.set(Field.DBIAS_IS_BF16, dbias.dtype() == DType.BF16);
        }
    }

    private void launchUnits(Kernel kernel, long warps) {
        long blocks = (warps + ConvProgram.BLOCK_WARPS - 1) / ConvProgram.BLOCK_WARPS;
        launcher.launch(kernel.name(), kernel.function(), blocks, 1, ConvProgram.blockThreads(), 1, 0, false);
    }

    /** A row of zeros and, after it, a row for what nobody reads. */
    private long spareRows(long channels) {
        long bytes = 2 * rowBytes(channels);
        if (spareRows.bytes() < bytes) {
            spareRows = atLeast(spareRows, bytes);
            stream.fill(spareRows.address(), (byte) 0, bytes);
        }
        return spareRows.address();
    }

    private static long rowBytes(long channels) {
        return channels * DType.BF16.bytes();
    }

    private Memory atLeast(Memory memory, long bytes) {
        if (memory.bytes() >= bytes) {
            return memory;
        }
        if (stream.isCapturing()) {
            throw new IllegalStateException(
                    "work space must be made before a graph capture, by prepare(rows, channels):" + " bytes="
                            + memory.bytes() + " wanted=" + bytes);
        }
        // A captured graph may still write to the smaller block; growing by half at least bounds what such blocks hold.
        retired.add(memory);
        return stream.allocate(Math.max(bytes, memory.bytes() + memory.bytes() / 2));
    }

    private static long denseAddress(String name, Tensor tensor) {
        if (!tensor.isDense()) {
            throw new IllegalArgumentException(name + " must be dense: " + name + "=" + tensor);
        }
        return address(name, tensor);
    }

    private static long address(String name, Tensor tensor) {
        long address = tensor.address();
        if (address % ALIGNMENT_BYTES != 0) {
            throw new IllegalArgumentException(name + " must start at a multiple of " + ALIGNMENT_BYTES
                    + " bytes: address=0x" + Long.toHexString(address));
        }
        return address;
    }

    private void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the engine was closed: device=" + device());
        }
    }

    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        retired.forEach(Memory::close);
        scratch.close();
        spareRows.close();
        stream.synchronize();
        rowOps.close();
        pinned.close();
        launcher.close();
        arguments.close();
        kernels.close();
        if (ownedDevice != null) {
            stream.close();
            ownedDevice.close();
        }
    }
}
