package dev.kcp.conv.cpu;

import dev.kcp.conv.SiluGradPolicy;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;

/**
 * Products of g with the input rows, added to a leaf in token order; policy BF16 sums in FP32, policy FP32 in FP64. Rows
 * before a document enter no sum, so that an infinite g there makes no NaN.
 *
 * <p>One loop for each type of sums, since the compiler keeps vectors in registers only where it knows their type.
 */
final class LeafRows {
    private LeafRows() {}

    /**
     * One block of channels; every address is that of the block's first channel.
     *
     * @param sums five planes, {@code planeBytes} apart
     * @param wholeChannels leading channels to take as vectors
     * @param window addresses of the three input rows before the first and then of the rows themselves
     * @param valid how many of the three rows before the first belong to its document
     * @param g FP32 rows, {@code gPitchBytes} apart
     */
    static void add(
            SiluGradPolicy policy,
            long sums,
            long planeBytes,
            int wholeChannels,
            int channels,
            long[] window,
            int valid,
            int rows,
            long g,
            long gPitchBytes) {
        int whole = policy == SiluGradPolicy.BF16 || Lanes.WIDENS ? wholeChannels : 0;
        int lacking = 3 - valid;
        for (int c = 0; c < whole; c += Lanes.COUNT) {
            if (policy == SiluGradPolicy.BF16) {
                floats(sums + c * 4L, planeBytes, window, c * 2L, lacking, rows, g + c * 4L, gPitchBytes);
            } else {
                for (int part = 0; part < 2; part++) {
                    long at = sums + (c + part * Lanes.COUNT / 2) * 8L;
                    doubles(at, planeBytes, window, c * 2L, lacking, rows, g + c * 4L, gPitchBytes, part);
                }
            }
        }
        for (int c = whole; c < channels; c++) {
            scalar(policy, sums, planeBytes, window, valid, rows, g, gPitchBytes, c);
        }
    }

    private static void floats(
            long sums, long plane, long[] window, long column, int lacking, int rows, long g, long gPitchBytes) {
        FloatVector s0 = Lanes.loadFloat(sums);
        FloatVector s1 = Lanes.loadFloat(sums + plane);
        FloatVector s2 = Lanes.loadFloat(sums + 2 * plane);
        FloatVector s3 = Lanes.loadFloat(sums + 3 * plane);
        FloatVector s4 = Lanes.loadFloat(sums + 4 * plane);
        int first = Math.min(lacking, rows);
        for (int r = 0; r < first; r++) {
            FloatVector value = Lanes.loadFloat(g + r * gPitchBytes);
            int missing = lacking - r;
            if (missing < 3) {
                s2 = value.fma(Lanes.loadBf16(window[r + 2] + column), s2);
            }
            if (missing < 2) {
                s1 = value.fma(Lanes.loadBf16(window[r + 1] + column), s1);
            }
            s3 = value.fma(Lanes.loadBf16(window[r + 3] + column), s3);
            s4 = s4.add(value);
        }
        FloatVector x3 = Lanes.loadBf16(window[first] + column);
        FloatVector x2 = Lanes.loadBf16(window[first + 1] + column);
        FloatVector x1 = Lanes.loadBf16(window[first + 2] + column);
        for (int r = first; r < rows; r++) {
            FloatVector value = Lanes.loadFloat(g + r * gPitchBytes);
            FloatVector x0 = Lanes.loadBf16(window[r + 3] + column);
            s0 = value.fma(x3, s0);
            s1 = value.fma(x2, s1);
            s2 = value.fma(x1, s2);
            s3 = value.fma(x0, s3);
            s4 = s4.add(value);
            x3 = x2;
            x2 = x1;
            x1 = x0;
        }
        Lanes.storeFloat(s0, sums);
        Lanes.storeFloat(s1, sums + plane);
        Lanes.storeFloat(s2, sums + 2 * plane);
        Lanes.storeFloat(s3, sums + 3 * plane);
        Lanes.storeFloat(s4, sums + 4 * plane);
    }

    private static void doubles(
            long sums,
            long plane,
            long[] window,
            long column,
            int lacking,
            int rows,
            long g,
            long gPitchBytes,
            int part) {
        long half = part * Lanes.COUNT / 2;
        long halfColumn = column + half * 2;
        long halfG = g + half * 4;
        DoubleVector s0 = Lanes.loadDouble(sums);
        DoubleVector s1 = Lanes.loadDouble(sums + plane);
        DoubleVector s2 = Lanes.loadDouble(sums + 2 * plane);
        DoubleVector s3 = Lanes.loadDouble(sums + 3 * plane);
        DoubleVector s4 = Lanes.loadDouble(sums + 4 * plane);
        int first = Math.min(lacking, rows);
        for (int r = 0; r < first; r++) {
            DoubleVector value = Lanes.widenFloat(halfG + r * gPitchBytes);
            int missing = lacking - r;
            if (missing < 3) {
                s2 = value.fma(Lanes.widenBf16(window[r + 2] + halfColumn), s2);
            }
            if (missing < 2) {
                s1 = value.fma(Lanes.widenBf16(window[r + 1] + halfColumn), s1);
            }
            s3 = value.fma(Lanes.widenBf16(window[r + 3] + halfColumn), s3);
            s4 = s4.add(value);
        }
        DoubleVector x3 = Lanes.widenBf16(window[first] + halfColumn);
        DoubleVector x2 = Lanes.widenBf16(window[first + 1] + halfColumn);
        DoubleVector x1 = Lanes.widenBf16(window[first + 2] + halfColumn);
        for (int r = first; r < rows; r++) {
            DoubleVector value = Lanes.widenFloat(halfG + r * gPitchBytes);
            DoubleVector x0 = Lanes.widenBf16(window[r + 3] + halfColumn);
            s0 = value.fma(x3, s0);
            s1 = value.fma(x2, s1);
            s2 = value.fma(x1, s2);
            s3 = value.fma(x0, s3);
            s4 = s4.add(value);
            x3 = x2;
            x2 = x1;
            x1 = x0;
        }
        Lanes.storeDouble(s0, sums);
        Lanes.storeDouble(s1, sums + plane);
        Lanes.storeDouble(s2, sums + 2 * plane);
        Lanes.storeDouble(s3, sums + 3 * plane);
        Lanes.storeDouble(s4, sums + 4 * plane);
    }

    private static void scalar(
            SiluGradPolicy policy,
            long sums,
            long planeBytes,
            long[] window,
            int valid,
            int rows,
            long g,
            long gPitchBytes,
            int c) {
        for (int r = 0; r < rows; r++) {
            float value = Scalars.loadFloat(g + r * gPitchBytes + c * 4L);
            for (int k = Math.max(0, 3 - r - valid); k <= 3; k++) {
                addProduct(policy, sums + k * planeBytes, c, value, Scalars.loadBf16(window[r + k] + c * 2L));
            }
            addProduct(policy, sums + Taps.BIAS_PLANE * planeBytes, c, value, 1f);
        }
    }

    private static void addProduct(SiluGradPolicy policy, long plane, int c, float g, float x) {
        if (policy == SiluGradPolicy.BF16) {
            long at = plane + c * 4L;
            Scalars.storeFloat(Math.fma(g, x, Scalars.loadFloat(at)), at);
        } else {
            long at = plane + c * 8L;
            Scalars.storeDouble(Math.fma((double) g, (double) x, Scalars.loadDouble(at)), at);
        }
    }
}
