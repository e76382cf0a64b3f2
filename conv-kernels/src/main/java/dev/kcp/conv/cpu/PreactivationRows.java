package dev.kcp.conv.cpu;

import jdk.incubator.vector.FloatVector;

/**
 * Preactivations of a few rows of a block of channels, from the addresses of their inputs. Where an input row lies (in x,
 * in the history pool, or in a row of zeros before a document) is the caller's business, so every geometry runs the same
 * loop.
 */
final class PreactivationRows {
    private PreactivationRows() {}

    /**
     * Every address is that of the block's first channel.
     *
     * @param window addresses of the three rows before the first and then of the {@code rows} rows themselves
     * @param taps {@link Taps}
     * @param planeBytes distance of two planes of the taps
     * @param whole leading channels to take as vectors
     * @param p FP32 rows {@code pPitchBytes} apart, to be written
     */
    static void run(
            long[] window, int rows, long taps, long planeBytes, int whole, int channels, long p, long pPitchBytes) {
        for (int c = 0; c < whole; c += Lanes.COUNT) {
            vector(window, rows, taps + c * 4L, planeBytes, c * 2L, p + c * 4L, pPitchBytes);
        }
        for (int c = whole; c < channels; c++) {
            scalar(window, rows, taps + c * 4L, planeBytes, c * 2L, p + c * 4L, pPitchBytes);
        }
    }

    private static void vector(
            long[] window, int rows, long taps, long planeBytes, long column, long p, long pPitchBytes) {
        FloatVector w0 = Lanes.loadFloat(taps);
        FloatVector w1 = Lanes.loadFloat(taps + planeBytes);
        FloatVector w2 = Lanes.loadFloat(taps + 2 * planeBytes);
        FloatVector w3 = Lanes.loadFloat(taps + 3 * planeBytes);
        FloatVector bias = Lanes.loadFloat(taps + Taps.BIAS_PLANE * planeBytes);
        FloatVector x3 = Lanes.loadBf16(window[0] + column);
        FloatVector x2 = Lanes.loadBf16(window[1] + column);
        FloatVector x1 = Lanes.loadBf16(window[2] + column);
        for (int r = 0; r < rows; r++) {
            FloatVector x0 = Lanes.loadBf16(window[r + 3] + column);
            FloatVector sum = w3.fma(x0, w2.fma(x1, w1.fma(x2, w0.mul(x3)))).add(bias);
            Lanes.storeFloat(sum, p + r * pPitchBytes);
            x3 = x2;
            x2 = x1;
            x1 = x0;
        }
    }

    private static void scalar(
            long[] window, int rows, long taps, long planeBytes, long column, long p, long pPitchBytes) {
        float w0 = Scalars.loadFloat(taps);
        float w1 = Scalars.loadFloat(taps + planeBytes);
        float w2 = Scalars.loadFloat(taps + 2 * planeBytes);
        float w3 = Scalars.loadFloat(taps + 3 * planeBytes);
        float bias = Scalars.loadFloat(taps + Taps.BIAS_PLANE * planeBytes);
        for (int r = 0; r < rows; r++) {
            float oldest = w0 * Scalars.loadBf16(window[r] + column);
            float older = Math.fma(w1, Scalars.loadBf16(window[r + 1] + column), oldest);
            float old = Math.fma(w2, Scalars.loadBf16(window[r + 2] + column), older);
            float sum = Math.fma(w3, Scalars.loadBf16(window[r + 3] + column), old) + bias;
            Scalars.storeFloat(sum, p + r * pPitchBytes);
        }
    }
}
