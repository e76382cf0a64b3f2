package dev.kcp.train.cuda;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaPrograms;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.GrowingBuffer;
import dev.kcp.cuda.HostCopies;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.ModelShape;
import dev.kcp.train.ParameterBuffer;
import dev.kcp.train.Tiles;
import dev.kcp.train.TrainEngine;
import dev.kcp.train.Weights;
import dev.kcp.train.cuda.TileProducts.Pair;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.List;

/**
 * The trainer on one GPU. Activations, the residual stream and what products read are BF16, sums FP32; weights, gradients
 * and moments FP32. Every call returns as soon as its programs are on the engine's stream; after a few steps the programs
 * of a step are recorded and replayed as one graph.
 *
 * <p>Bits depend on neither the number of ranks nor the run: no program uses atomics, and cuBLAS is given algorithm and
 * work space. They are those of one kind of GPU and one version of cuBLAS.
 */
public final class CudaTrainEngine implements TrainEngine {
    static final int ARGUMENT_WORDS = 16;
    /** Threads of a block of each kernel in train.cu but the one that ends the norm. */
    static final int BLOCK_THREADS = 256;

    static final int BLOCK_WARPS = BLOCK_THREADS / 32;
    private static final int CHUNK_ELEMENTS = 8;

    private final CloseStack owned;
    private final CudaStream stream;
    private final CudaConvEngine conv;
    private final CudaPrograms programs;
    private final HostCopies copies;
    private final TreeSums tree;
    private final TileProducts products;
    private final CudaOptimizer optimizer;
    private final GrowingBuffer leaves;
    private final GrowingBuffer oneHot;
    private final StepGraph step;
    private NcclCommunicator group;

    /** @param owned takes what is made here, and is taken over once all is made */
    private CudaTrainEngine(CloseStack owned, int ordinal, Path cublas) {
        this.owned = owned;
        stream = owned.push(CudaStream.create(owned.push(CudaDevice.open(ordinal))));
        conv = owned.push(CudaConvEngine.on(stream, false));
        programs = owned.push(CudaPrograms.load(CudaTrainEngine.class, stream, "train", ARGUMENT_WORDS));
        copies = owned.push(new HostCopies(stream));
        Cublas library = owned.push(new Cublas(stream, cublas));
        tree = owned.push(new TreeSums(stream, programs));
        products = owned.push(new TileProducts(stream, library, tree));
        oneHot = owned.push(new GrowingBuffer(stream));
        leaves = owned.push(new GrowingBuffer(stream));
        optimizer = owned.push(new CudaOptimizer(stream, programs, copies));
        step = owned.push(new StepGraph(stream));
        owned.push(stream::synchronize);
    }

    /**
     * The programs on a new stream of a device.
     *
     * @param ordinal the device's number among the visible ones
     * @param cublas the library's folder, see {@link CublasLibrary#require}
     * @throws dev.kcp.KcpException with code MISSING_DEVICE if driver, device, kernels or cuBLAS are not there
     */
    public static CudaTrainEngine open(int ordinal, Path cublas) {
        CloseStack owned = new CloseStack();
        try {
            return new CudaTrainEngine(owned, ordinal, cublas);
        } catch (RuntimeException | Error e) {
            owned.closeAfter(e);
            throw e;
        }
    }

    /** The stream that all work goes to; a communicator for this engine's steps is made on it. */
    public CudaStream stream() {
        return stream;
    }

    /** Makes steps those of a group: recorded and replayed by all ranks, and waited for under its deadline. */
    public void join(NcclCommunicator communicator) {
        group = communicator;
        step.joinedBy(communicator);
    }

    @Override
    public ConvEngine conv() {
        return conv;
    }

    @Override
    public DType activationType() {
        return DType.BF16;
    }

    @Override
    public DType streamType() {
        return DType.BF16;
    }

    @Override
    public Tensor allocate(DType dtype, long... shape) {
        return stream.zeros(dtype, shape);
    }

    @Override
    public void write(Tensor to, MemorySegment from) {
        copies.write(from, to.address());
    }

    @Override
    public void read(Tensor from, MemorySegment to) {
        copies.read(from.address(), to, group == null ? stream::synchronize : group::synchronize);
    }

    @Override
    public void step(Object same, Runnable body) {
        step.run(same, body);
    }

    @Override
    public void zero(Tensor tensor) {
        stream.fill(tensor.address(), (byte) 0, bytes(tensor));
    }

    @Override
    public void copy(Tensor from, Tensor to) {
        if (from.dtype() == to.dtype()) {
            if (bytes(from) > 0) {
                stream.copy(from.address(), to.address(), bytes(from));
            }
            return;
        }
        boolean narrows = from.dtype() == DType.F32 && to.dtype() == DType.BF16;
        if (!narrows && !(from.dtype() == DType.BF16 && to.dtype() == DType.F32)) {
            throw new IllegalArgumentException("no such cast: from=" + from.dtype() + " to=" + to.dtype());
        }
        programs.set(to.address(), from.address(), from.elements())
                .launch(narrows ? "train_to_bf16" : "train_to_float", blocks(from.elements()), BLOCK_THREADS);
    }

    @Override
    public void add(Tensor left, Tensor right) {
        tree.add(left.dtype(), left.address(), right.address(), left.elements());
    }

    @Override
    public void embed(Tensor tokens, Tensor vectors, Tensor residual) {
        long chunks = residual.columns() / CHUNK_ELEMENTS;
        programs.set(tokens.address(), vectors.address(), residual.address(), residual.rows(), chunks)
                .launch("train_embed", blocks(residual.rows() * chunks), BLOCK_THREADS);
    }

    @Override
    public void embedBackward(Tiles tiles, Tensor dLogits, Tensor normed, Tensor tokens, Tensor dStream, Tensor sums) {
        long rows = tiles.rows();
        long bytes = rows * ModelShape.VOCABULARY * DType.BF16.bytes();
        long address = oneHot.address(bytes);
        Memory borrowed = Memory.borrow(conv.device(), address, bytes);
        Tensor places = Tensor.over(borrowed, DType.BF16, rows, ModelShape.VOCABULARY);
        programs.set(tokens.address(), address, rows)
                .launch("train_one_hot", blocks(rows * ModelShape.VOCABULARY / CHUNK_ELEMENTS), BLOCK_THREADS);
        products.summed(tiles, List.of(new Pair(dLogits, normed), new Pair(places, dStream)), sums);
    }

    @Override
    public void norm(Tensor x, Tensor gain, Tensor y, Tensor inverseRms) {
        programs.set(x.address(), gain.address(), y.address(), inverseRms.address(), x.rows(), x.columns())
                .launch("train_norm", (x.rows() + BLOCK_WARPS - 1) / BLOCK_WARPS, BLOCK_THREADS);
    }

    @Override
    public void normBackward(Tiles tiles, Tensor x, Tensor gain, Tensor inverseRms, Tensor dy, Tensor dx, Tensor sums) {
        long count = TreeSums.leaves(tiles, tiles.count());
        long made = leaves.address(count * x.columns() * Float.BYTES);
        programs.set(
                        x.address(),
                        gain.address(),
                        inverseRms.address(),
                        dy.address(),
                        dx.address(),
                        made,
                        x.rows(),
                        x.columns(),
                        tiles.tileRows())
                .launch("train_norm_backward", count, BLOCK_THREADS);
        tree.nodes(tiles, made, sums);
    }

    @Override
    public void multiply(Tiles tiles, Tensor x, Tensor weight, boolean transposed, Tensor plus, Tensor y) {
        products.byRow(tiles, x, weight, transposed, plus, y);
    }

    @Override
    public void weightGradient(Tiles tiles, Tensor x, Tensor dy, Tensor sums) {
        products.summed(tiles, List.of(new Pair(x, dy)), sums);
    }

    @Override
    public void crossEntropy(Tiles tiles, Tensor logits, Tensor targets, float scale, Tensor sums) {
        long count = TreeSums.leaves(tiles, tiles.count());
        long made = leaves.address(count * Double.BYTES);
        programs.set(
                        logits.address(),
                        targets.address(),
                        made,
                        logits.rows(),
                        tiles.tileRows(),
                        Float.floatToRawIntBits(scale))
                .launch("train_cross_entropy", count, BLOCK_THREADS);
        tree.nodes(tiles, made, sums);
    }

    @Override
    public void gradientNorm(ParameterBuffer gradients, Tensor norm) {
        optimizer.norm(gradients.flat(), norm);
    }

    @Override
    public void adamW(
            Weights weights,
            ParameterBuffer gradients,
            ParameterBuffer first,
            ParameterBuffer second,
            Tensor norm,
            Tensor factors) {
        optimizer.update(weights, gradients, first, second, norm, factors);
    }

    private static long blocks(long threads) {
        return (threads + BLOCK_THREADS - 1) / BLOCK_THREADS;
    }

    private static long bytes(Tensor tensor) {
        return tensor.elements() * tensor.dtype().bytes();
    }

    @Override
    public void close() {
        owned.close();
    }
}
