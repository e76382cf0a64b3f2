package dev.kcp.train.cpu;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.conv.tree.TreeSums;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.ParameterBuffer;
import dev.kcp.train.Tiles;
import dev.kcp.train.TrainEngine;
import dev.kcp.train.Weights;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The trainer on the CPU. All is FP32 but for the convolution's rows; every call has done its work when it returns. Bits
 * depend on the number of threads, which OpenBLAS may cut products by.
 */
public final class CpuTrainEngine implements TrainEngine {
    private final ConvEngine conv;
    private final Gemm gemm;
    private final TileSums tileSums = new TileSums();
    private final RowTile left = new RowTile();
    private final RowTile right = new RowTile();

    /**
     * The CPU's programs.
     *
     * @param threads threads of every program
     * @throws dev.kcp.KcpException with {@code MISSING_DEVICE} if OpenBLAS cannot be loaded
     */
    public CpuTrainEngine(int threads) {
        gemm = new Gemm(threads);
        conv = new CpuConvEngine(threads);
    }

    @Override
    public ConvEngine conv() {
        return conv;
    }

    @Override
    public DType activationType() {
        return DType.F32;
    }

    @Override
    public DType streamType() {
        return DType.F32;
    }

    @Override
    public void write(Tensor to, MemorySegment from) {
        segment(to).copyFrom(from);
    }

    @Override
    public void read(Tensor from, MemorySegment to) {
        to.copyFrom(segment(from));
    }

    @Override
    public void zero(Tensor tensor) {
        HostMemory.zero(tensor.address(), bytes(tensor));
    }

    @Override
    public void copy(Tensor from, Tensor to) {
        if (from.dtype() != to.dtype()) {
            throw new IllegalArgumentException(
                    "rows on the CPU keep their type: from=" + from.dtype() + " to=" + to.dtype());
        }
        HostMemory.copy(from.address(), to.address(), bytes(from));
    }

    @Override
    public void add(Tensor to, Tensor from) {
        if (to.dtype() == DType.F32 && to.elements() % Lanes.COUNT == 0) {
            TileSums.add(to.address(), from.address(), to.elements());
        } else {
            TreeSums.add(to.dtype(), to.address(), from.address(), to.elements());
        }
    }

    @Override
    public void embed(Tensor tokens, Tensor vectors, Tensor stream) {
        for (long row = 0; row < stream.rows(); row++) {
            HostMemory.copy(vectors.rowAddress(token(tokens, row)), stream.rowAddress(row), stream.pitchBytes());
        }
    }

    @Override
    public void embedBackward(Tiles tiles, Tensor dLogits, Tensor normed, Tensor tokens, Tensor dStream, Tensor sums) {
        int channels = (int) normed.columns();
        int vocabulary = (int) dLogits.columns();
        tileSums.fill(tiles, sums, (tile, to) -> {
            int begin = tiles.rowBegin(tile);
            int end = tiles.rowEnd(tile);
            product(vocabulary, channels, end - begin, dLogits.rowAddress(begin), normed.rowAddress(begin), to);
            for (int row = begin; row < end; row++) {
                TileSums.add(to + token(tokens, row) * normed.pitchBytes(), dStream.rowAddress(row), channels);
            }
        });
    }

    @Override
    public void norm(Tensor x, Tensor gain, Tensor y, Tensor inverseRms) {
        RmsNorm.forward(
                (int) x.rows(), (int) x.columns(), x.address(), gain.address(), y.address(), inverseRms.address());
    }

    @Override
    public void normBackward(Tiles tiles, Tensor x, Tensor gain, Tensor inverseRms, Tensor dy, Tensor dx, Tensor sums) {
        tileSums.fill(tiles, sums, (tile, to) -> {
            int begin = tiles.rowBegin(tile);
            HostMemory.zero(to, bytes(gain));
            RmsNorm.backward(
                    tiles.rowEnd(tile) - begin,
                    (int) x.columns(),
                    x.rowAddress(begin),
                    gain.address(),
                    inverseRms.rowAddress(begin),
                    dy.rowAddress(begin),
                    dx.rowAddress(begin),
                    to);
        });
    }

    @Override
    public void multiply(Tiles tiles, Tensor x, Tensor weight, boolean transposed, Tensor plus, Tensor y) {
        if (plus != null) {
            copy(plus, y);
        }
        int k = (int) x.columns();
        int m = (int) y.columns();
        for (int tile = 0; tile < tiles.count(); tile++) {
            int begin = tiles.rowBegin(tile);
            int end = tiles.rowEnd(tile);
            long from = left.read(x, begin, end);
            long to = right.write(y, begin, end);
            gemm.multiply(end - begin, m, k, from, false, weight.address(), transposed, plus == null ? 0 : 1, to);
            right.store(y, begin, end);
        }
    }

    @Override
    public void weightGradient(Tiles tiles, Tensor x, Tensor dy, Tensor sums) {
        tileSums.fill(tiles, sums, (tile, to) -> {
            int begin = tiles.rowBegin(tile);
            int end = tiles.rowEnd(tile);
            long xRows = left.read(x, begin, end);
            long dyRows = right.read(dy, begin, end);
            product((int) x.columns(), (int) dy.columns(), end - begin, xRows, dyRows, to);
        });
    }

    /** {@code to[k,m] = x[rows,k]^T dy[rows,m]}. */
    private void product(int k, int m, int rows, long x, long dy, long to) {
        gemm.multiply(k, m, rows, x, true, dy, false, 0, to);
    }

    @Override
    public void crossEntropy(Tiles tiles, Tensor logits, Tensor targets, float scale, Tensor sums) {
        for (int i = 0; i < tiles.nodes().size(); i++) {
            Tiles.Node node = tiles.nodes().get(i);
            double sum = node.tileBegin() == node.tileEnd()
                    ? 0
                    : loss(tiles, node.tileBegin(), node.tileEnd(), logits, targets, scale);
            HostMemory.ALL.set(ValueLayout.JAVA_DOUBLE, sums.rowAddress(i), sum);
        }
    }

    private static double loss(Tiles tiles, int begin, int end, Tensor logits, Tensor targets, float scale) {
        if (end - begin == 1) {
            double sum = 0;
            for (int row = tiles.rowBegin(begin); row < tiles.rowEnd(begin); row++) {
                sum += CrossEntropy.lossAndGradient(logits.rowAddress(row), (int) token(targets, row), scale);
            }
            return sum;
        }
        int middle = begin + Integer.highestOneBit(end - begin - 1);
        double ofLeft = loss(tiles, begin, middle, logits, targets, scale);
        return ofLeft + loss(tiles, middle, end, logits, targets, scale);
    }

    @Override
    public void gradientNorm(ParameterBuffer gradients, Tensor norm) {
        HostMemory.ALL.set(ValueLayout.JAVA_DOUBLE, norm.address(), Optimizer.norm(gradients.flat()));
    }

    @Override
    public void adamW(
            Weights weights,
            ParameterBuffer gradients,
            ParameterBuffer first,
            ParameterBuffer second,
            Tensor norm,
            Tensor factors) {
        double length = HostMemory.ALL.get(ValueLayout.JAVA_DOUBLE, norm.address());
        if (Double.isFinite(length)) {
            Optimizer.update(weights.values(), gradients, first, second, length, factors);
        }
    }

    private static long token(Tensor tokens, long row) {
        return HostMemory.ALL.get(ValueLayout.JAVA_INT, tokens.address() + row * Integer.BYTES);
    }

    private static MemorySegment segment(Tensor tensor) {
        return Memory.borrow(tensor.device(), tensor.address(), bytes(tensor)).segment();
    }

    private static long bytes(Tensor tensor) {
        return tensor.elements() * tensor.dtype().bytes();
    }

    @Override
    public void close() {
        CloseStack.closeAll(right, left, tileSums, conv);
    }
}
