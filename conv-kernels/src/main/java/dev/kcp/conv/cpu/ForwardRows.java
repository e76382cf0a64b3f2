package dev.kcp.conv.cpu;

import jdk.incubator.vector.FloatVector;

/**
 * y of a few rows from the addresses of their inputs. Where an input row lies (in x, in the history pool, or in a row of
 * zeros before a document) is the caller's business, so every geometry runs the same loop.
 */
final class ForwardRows {
    private ForwardRows() {}

    /** The preactivation, oldest tap first, the bias last. */
    static float preactivation(
            float x3, float x2, float x1, float x0, float w0, float w1, float w2, float w3, float bias) {
        return Math.fma(w3, x0, Math.fma(w2, x1, Math.fma(w1, x2, w0 * x3))) + bias;
    }

    static FloatVector preactivation(
            FloatVector x3,
            FloatVector x2,
            FloatVector x1,
            FloatVector x0,
            FloatVector w0,
            FloatVector w1,
            FloatVector w2,
            FloatVector w3,
            FloatVector bias) {
        return w3.fma(x0, w2.fma(x1, w1.fma(x2, w0.mul(x3)))).add(bias);
    }

    /**
     * @param window addresses of the three rows before the first and then of the {@code rows} rows themselves
     * @param y address of the first row's output
     * @param planes {@link Taps} of all {@code channels}
     */
    static void run(long[] window, int rows, long y, long yPitchBytes, long planes, int channels) {
        long planeBytes = (long) channels * Float.BYTES;
        int whole = Lanes.whole(channels);
        for (int c = 0; c < whole; c += Lanes.COUNT) {
            vector(window, rows, y, yPitchBytes, planes + (long) c * Float.BYTES, planeBytes, c * 2L);
        }
        for (int c = whole; c < channels; c++) {
            scalar(window, rows, y, yPitchBytes, planes + (long) c * Float.BYTES, planeBytes, c * 2L);
        }
    }

    private static void vector(
            long[] window, int rows, long y, long yPitchBytes, long taps, long planeBytes, long column) {
        FloatVector w0 = Lanes.loadFloat(taps);
        FloatVector w1 = Lanes.loadFloat(taps + planeBytes);
        FloatVector w2 = Lanes.loadFloat(taps + 2 * planeBytes);
        FloatVector w3 = Lanes.loadFloat(taps + 3 * planeBytes);
        FloatVector bias = Lanes.loadFloat(taps + 4 * planeBytes);
        FloatVector x3 = Lanes.loadBf16(window[0] + column);
        FloatVector x2 = Lanes.loadBf16(window[1] + column);
        FloatVector x1 = Lanes.loadBf16(window[2] + column);
        for (int r = 0; r < rows; r++) {
            FloatVector x0 = Lanes.loadBf16(window[r + 3] + column);
            FloatVector p = preactivation(x3, x2, x1, x0, w0, w1, w2, w3, bias);
            Lanes.storeBf16(Silu.silu(p), y + r * yPitchBytes + column);
            x3 = x2;
            x2 = x1;
            x1 = x0;
        }
    }

    private static void scalar(
            long[] window, int rows, long y, long yPitchBytes, long taps, long planeBytes, long column) {
        float w0 = Scalars.loadFloat(taps);
        float w1 = Scalars.loadFloat(taps + planeBytes);
        float w2 = Scalars.loadFloat(taps + 2 * planeBytes);
        float w3 = Scalars.loadFloat(taps + 3 * planeBytes);
        float bias = Scalars.loadFloat(taps + 4 * planeBytes);
        for (int r = 0; r < rows; r++) {
            float p = preactivation(
                    Scalars.loadBf16(window[r] + column),
                    Scalars.loadBf16(window[r + 1] + column),
                    Scalars.loadBf16(window[r + 2] + column),
                    Scalars.loadBf16(window[r + 3] + column),
                    w0,
                    w1,
                    w2,
                    w3,
                    bias);
            Scalars.storeBf16(Silu.silu(p), y + r * yPitchBytes + column);
        }
    }
}
