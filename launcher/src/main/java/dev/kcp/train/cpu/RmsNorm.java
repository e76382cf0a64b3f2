package dev.kcp.train.cpu;

import dev.kcp.tensor.HostMemory;
import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.FloatVector;

/**
 * Root-mean-square norm with a gain per channel: {@code y = gain * x * r}, {@code r = 1 / sqrt(mean(x^2) + 1e-6)}. Rows
 * are FP32 {@code [rows, channels]}, dense, channels a multiple of 8; r is kept, one FP32 per row.
 */
final class RmsNorm {
    static final double EPSILON = 1e-6;

    private RmsNorm() {}

    static void forward(int rows, int channels, long x, long gain, long y, long inverseRms) {
        long rowBytes = (long) channels * Float.BYTES;
        for (int row = 0; row < rows; row++) {
            long xRow = x + row * rowBytes;
            long yRow = y + row * rowBytes;
            FloatVector squares = FloatVector.zero(Lanes.FLOATS);
            for (long i = 0; i < rowBytes; i += Lanes.BYTES) {
                FloatVector v = Lanes.load(xRow + i);
                squares = v.fma(v, squares);
            }
            float r = (float) (1 / Math.sqrt((double) Lanes.sum(squares) / channels + EPSILON));
            for (long i = 0; i < rowBytes; i += Lanes.BYTES) {
                Lanes.store(Lanes.load(xRow + i).mul(r).mul(Lanes.load(gain + i)), yRow + i);
            }
            HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, inverseRms + (long) row * Float.BYTES, r);
        }
    }

    /** Adds the gradients of x and of the gain to what stands in {@code dx} and {@code dGain}. */
    static void backward(int rows, int channels, long x, long gain, long inverseRms, long dy, long dx, long dGain) {
        long rowBytes = (long) channels * Float.BYTES;
        for (int row = 0; row < rows; row++) {
            long xRow = x + row * rowBytes;
            long dyRow = dy + row * rowBytes;
            long dxRow = dx + row * rowBytes;
            float r = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, inverseRms + (long) row * Float.BYTES);
            FloatVector products = FloatVector.zero(Lanes.FLOATS);
            for (long i = 0; i < rowBytes; i += Lanes.BYTES) {
                FloatVector gradient = Lanes.load(dyRow + i);
                FloatVector value = Lanes.load(xRow + i);
                products = gradient.mul(Lanes.load(gain + i)).fma(value, products);
                Lanes.store(gradient.fma(value.mul(r), Lanes.load(dGain + i)), dGain + i);
            }
            float share = (float) ((double) Lanes.sum(products) * r * r * r / channels);
            for (long i = 0; i < rowBytes; i += Lanes.BYTES) {
                FloatVector own =
                        Lanes.load(dyRow + i).mul(Lanes.load(gain + i)).mul(r);
                FloatVector delta = own.sub(Lanes.load(xRow + i).mul(share));
                Lanes.store(Lanes.load(dxRow + i).add(delta), dxRow + i);
            }
        }
    }
}
