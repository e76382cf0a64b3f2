package dev.kcp.conv;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;

/** Arguments of one convolution for a test: tensors for the programs, numbers for the reference. */
public record ConvCase(int[] cuSeqlens, Tensor x, Tensor weight, Tensor bias, Tensor offsets, Tensor dy)
        implements AutoCloseable {

    /** Normal numbers for documents of these lengths. */
    public static ConvCase random(long seed, int channels, DType weightType, DType biasType, int... lengths) {
        Random random = new Random(seed);
        int[] cuSeqlens = new int[lengths.length + 1];
        for (int d = 0; d < lengths.length; d++) {
            cuSeqlens[d + 1] = cuSeqlens[d] + lengths[d];
        }
        int rows = cuSeqlens[lengths.length];
        return new ConvCase(
                cuSeqlens,
                normal(random, 1, DType.BF16, rows, channels),
                normal(random, 0.5, weightType, channels, 4),
                biasType == null ? null : normal(random, 0.5, biasType, channels),
                ints(cuSeqlens),
                normal(random, 1, DType.BF16, rows, channels));
    }

    /** FP32 taps, no bias. */
    public static ConvCase random(long seed, int channels, int... lengths) {
        return random(seed, channels, DType.F32, null, lengths);
    }

    public static Tensor normal(Random random, double scale, DType dtype, long... shape) {
        Tensor tensor = Tensor.zeros(dtype, shape);
        for (long r = 0; r < tensor.rows(); r++) {
            for (long c = 0; c < tensor.columns(); c++) {
                set(tensor, r, c, (float) (random.nextGaussian() * scale));
            }
        }
        return tensor;
    }

    public static Tensor ints(int... values) {
        Tensor tensor = Tensor.zeros(DType.I32, values.length);
        for (int i = 0; i < values.length; i++) {
            tensor.segment().setAtIndex(ValueLayout.JAVA_INT, i, values[i]);
        }
        return tensor;
    }

    public static void set(Tensor tensor, long row, long column, float value) {
        long index = row * tensor.columns() + column;
        if (tensor.dtype() == DType.BF16) {
            tensor.segment().setAtIndex(ValueLayout.JAVA_SHORT, index, BFloat16.fromFloat(value));
        } else {
            tensor.segment().setAtIndex(ValueLayout.JAVA_FLOAT, index, value);
        }
    }

    public static double get(Tensor tensor, long row, long column) {
        return numbers(tensor.rows(row, row + 1))[0][(int) column];
    }

    /** All numbers of a tensor, {@code [rows][columns]}. */
    public static double[][] numbers(Tensor tensor) {
        double[][] numbers = new double[(int) tensor.rows()][(int) tensor.columns()];
        for (int r = 0; r < numbers.length; r++) {
            MemorySegment row = HostMemory.ALL.asSlice(
                    tensor.rowAddress(r), tensor.columns() * tensor.dtype().bytes());
            for (int c = 0; c < numbers[r].length; c++) {
                numbers[r][c] = switch (tensor.dtype()) {
                    case BF16 -> BFloat16.toFloat(row.getAtIndex(ValueLayout.JAVA_SHORT_UNALIGNED, c));
                    case F32 -> row.getAtIndex(ValueLayout.JAVA_FLOAT_UNALIGNED, c);
                    case F64 -> row.getAtIndex(ValueLayout.JAVA_DOUBLE_UNALIGNED, c);
                    case I32 -> row.getAtIndex(ValueLayout.JAVA_INT_UNALIGNED, c);
                };
            }
        }
        return numbers;
    }

    public int rows() {
        return (int) x.rows();
    }

    public int channels() {
        return (int) x.columns();
    }

    public int documents() {
        return cuSeqlens.length - 1;
    }

    public int begin(int document) {
        return cuSeqlens[document];
    }

    @Override
    public void close() {
        for (Tensor tensor : Arrays.asList(x, weight, bias, offsets, dy)) {
            if (tensor != null) {
                tensor.close();
            }
        }
    }
}
