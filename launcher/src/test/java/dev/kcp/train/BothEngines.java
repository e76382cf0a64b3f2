package dev.kcp.train;

import dev.kcp.conv.tree.NodeKey;
import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.cpu.CpuTrainEngine;
import dev.kcp.train.cuda.CublasLibrary;
import dev.kcp.train.cuda.CudaTrainEngine;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** The CPU's engine and a GPU's, and the same numbers in the memory of both: FP32 on the CPU, rounded to BF16 for rows. */
final class BothEngines implements AutoCloseable {
    /** The same rows twice. */
    record Both(Tensor cpu, Tensor gpu) {}

    final CpuTrainEngine cpu = new CpuTrainEngine(1);
    final CudaTrainEngine gpu = openGpu(0);
    private final List<Tensor> owned = new ArrayList<>();

    static CudaTrainEngine openGpu(int ordinal) {
        return CudaTrainEngine.open(ordinal, CublasLibrary.require(System.getenv()));
    }

    /** Rows of random numbers that BF16 can hold. */
    Both rows(Random random, long rows, long columns) {
        float[] values = new float[(int) (rows * columns)];
        for (int i = 0; i < values.length; i++) {
            values[i] = BFloat16.round((float) random.nextGaussian());
        }
        return rows(values, rows, columns);
    }

    private Both rows(float[] values, long rows, long columns) {
        Both both =
                new Both(keep(cpu.allocate(DType.F32, rows, columns)), keep(gpu.allocate(DType.BF16, rows, columns)));
        cpu.write(both.cpu(), MemorySegment.ofArray(values));
        short[] bits = new short[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = BFloat16.fromFloat(values[i]);
        }
        gpu.write(both.gpu(), MemorySegment.ofArray(bits));
        return both;
    }

    /** FP32 on both. */
    Both floats(Random random, long... shape) {
        Both both = zeros(DType.F32, shape);
        float[] values = new float[(int) both.cpu().elements()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        cpu.write(both.cpu(), MemorySegment.ofArray(values));
        gpu.write(both.gpu(), MemorySegment.ofArray(values));
        return both;
    }

    Both zeros(DType dtype, long... shape) {
        return new Both(keep(cpu.allocate(dtype, shape)), keep(gpu.allocate(dtype, shape)));
    }

    /** BF16 on the GPU. */
    Tensor zeroRows(long rows, long columns) {
        return keep(gpu.allocate(DType.BF16, rows, columns));
    }

    /** Rows that a program overwrites. */
    Both poisoned(long rows, long columns) {
        float[] values = new float[(int) (rows * columns)];
        java.util.Arrays.fill(values, Float.NaN);
        return rows(values, rows, columns);
    }

    Both tokens(Random random, long rows) {
        Both both = zeros(DType.I32, rows, 1);
        int[] tokens = random.ints(rows, 0, ModelShape.VOCABULARY).toArray();
        cpu.write(both.cpu(), MemorySegment.ofArray(tokens));
        gpu.write(both.gpu(), MemorySegment.ofArray(tokens));
        return both;
    }

    private Tensor keep(Tensor tensor) {
        owned.add(tensor);
        return tensor;
    }

    double[] ofCpu(Tensor tensor) {
        return read(cpu, tensor);
    }

    double[] ofGpu(Tensor tensor) {
        return read(gpu, tensor);
    }

    private static double[] read(TrainEngine engine, Tensor tensor) {
        byte[] bytes = new byte[(int) (tensor.elements() * tensor.dtype().bytes())];
        engine.read(tensor, MemorySegment.ofArray(bytes));
        MemorySegment segment = MemorySegment.ofArray(bytes);
        double[] values = new double[(int) tensor.elements()];
        for (int i = 0; i < values.length; i++) {
            values[i] = switch (tensor.dtype()) {
                case BF16 -> BFloat16.toFloat(segment.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i));
                case F32 -> segment.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * i);
                case F64 -> segment.get(ValueLayout.JAVA_DOUBLE_UNALIGNED, 8L * i);
                case I32 -> segment.get(ValueLayout.JAVA_INT_UNALIGNED, 4L * i);
            };
        }
        return values;
    }

    /** Tiles with the nodes that end at the given tiles, and an empty one behind them. */
    static Tiles tiles(int rows, int tileRows, int... nodeEnds) {
        List<Tiles.Node> nodes = new ArrayList<>();
        int begin = 0;
        for (int end : nodeEnds) {
            nodes.add(new Tiles.Node(new NodeKey(0, 0, 0), begin, end));
            begin = end;
        }
        int count = (rows + tileRows - 1) / tileRows;
        nodes.add(new Tiles.Node(new NodeKey(0, 0, 0), begin, count));
        nodes.add(new Tiles.Node(new NodeKey(0, 0, 0), count, count));
        return new Tiles(rows, tileRows, nodes);
    }

    @Override
    public void close() {
        owned.forEach(Tensor::close);
        gpu.close();
        cpu.close();
    }
}
