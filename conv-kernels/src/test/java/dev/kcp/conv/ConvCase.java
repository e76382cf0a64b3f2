package dev.kcp.conv;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
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
        long index = row * tensor.columns() + column;
        return switch (tensor.dtype()) {
            case BF16 -> BFloat16.toFloat(tensor.segment().getAtIndex(ValueLayout.JAVA_SHORT, index));
            case F32 -> tensor.segment().getAtIndex(ValueLayout.JAVA_FLOAT, index);
            case F64 -> tensor.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, index);
            case I32 -> tensor.segment().getAtIndex(ValueLayout.JAVA_INT, index);
        };
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

    public double x(int row, int channel) {
        return get(x, row, channel);
    }

    public double dy(int row, int channel) {
        return get(dy, row, channel);
    }

    public double weight(int channel, int tap) {
        return get(weight, channel, tap);
    }

    public double bias(int channel) {
        return bias == null ? 0 : get(bias, 0, channel);
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
