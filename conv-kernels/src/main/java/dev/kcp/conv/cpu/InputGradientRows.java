package dev.kcp.conv.cpu;

import jdk.incubator.vector.FloatVector;

/** dx of a few rows from the addresses of FP32 g rows: the rows' own and up to three after them. */
final class InputGradientRows {
    private InputGradientRows() {}

    /**
     * @param g addresses of the g rows of the first row and those after it
     * @param present how many of them exist; a row uses its own and the next up to three
     * @param rows rows of dx to write, at most {@code present}
     * @param dx address of the first row's output, at its first channel; g addresses likewise
     * @param taps {@link Taps} at its first channel
     * @param planeBytes distance of two planes
     * @param whole leading channels to take as vectors
     */
    static void run(
            long[] g,
            int present,
            int rows,
            long dx,
            long dxPitchBytes,
            long taps,
            long planeBytes,
            int whole,
            int channels) {
        for (int c = 0; c < whole; c += Lanes.COUNT) {
            vector(g, present, rows, dx + c * 2L, dxPitchBytes, taps, planeBytes, c * 4L);
        }
        for (int c = whole; c < channels; c++) {
            scalar(g, present, rows, dx + c * 2L, dxPitchBytes, taps, planeBytes, c * 4L);
        }
    }

    private static void vector(
            long[] g, int present, int rows, long dx, long dxPitchBytes, long taps, long planeBytes, long column) {
        FloatVector w0 = Lanes.loadFloat(taps + column);
        FloatVector w1 = Lanes.loadFloat(taps + planeBytes + column);
        FloatVector w2 = Lanes.loadFloat(taps + 2 * planeBytes + column);
        FloatVector w3 = Lanes.loadFloat(taps + 3 * planeBytes + column);
        int full = Math.min(rows, present - 3);
        for (int r = 0; r < full; r++) {
            FloatVector sum = w3.mul(Lanes.loadFloat(g[r] + column));
            sum = w2.fma(Lanes.loadFloat(g[r + 1] + column), sum);
            sum = w1.fma(Lanes.loadFloat(g[r + 2] + column), sum);
            sum = w0.fma(Lanes.loadFloat(g[r + 3] + column), sum);
            Lanes.storeBf16(sum, dx + r * dxPitchBytes);
        }
        for (int r = Math.max(0, full); r < rows; r++) {
            FloatVector sum = w3.mul(Lanes.loadFloat(g[r] + column));
            if (r + 1 < present) {
                sum = w2.fma(Lanes.loadFloat(g[r + 1] + column), sum);
            }
            if (r + 2 < present) {
                sum = w1.fma(Lanes.loadFloat(g[r + 2] + column), sum);
            }
            Lanes.storeBf16(sum, dx + r * dxPitchBytes);
        }
    }

    private static void scalar(
            long[] g, int present, int rows, long dx, long dxPitchBytes, long taps, long planeBytes, long column) {
        for (int r = 0; r < rows; r++) {
            float sum = Scalars.loadFloat(taps + 3 * planeBytes + column) * Scalars.loadFloat(g[r] + column);
            for (int j = 1; j <= 3 && r + j < present; j++) {
                float tap = Scalars.loadFloat(taps + (3 - j) * planeBytes + column);
                sum = Math.fma(tap, Scalars.loadFloat(g[r + j] + column), sum);
            }
            Scalars.storeBf16(sum, dx + r * dxPitchBytes);
        }
    }
}
