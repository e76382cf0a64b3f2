package dev.kcp.conv.cpu;

import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.BFloat16;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;

/**
 * g = dy * silu'(q) of a few rows and, where sums are asked for, their products with the input rows added to a leaf in
 * token order. Policy BF16 sums in FP32, policy FP32 in FP64.
 */
final class GradientRows {
    private GradientRows() {}

    /**
     * One block of channels; every address is that of the block's first channel.
     *
     * @param taps {@link Taps}
     * @param planeBytes distance of two planes of the taps
     * @param sums five planes of the leaf's sums, or 0 where nobody asks for them
     * @param sumPlaneBytes distance of two planes of the sums
     */
    record Block(long taps, long planeBytes, long sums, long sumPlaneBytes, int channels) {}

    /**
     * @param window addresses of the three input rows before the first and then of the rows themselves
     * @param valid how many of the three rows before the first belong to its document; the others are zeros and enter no
     *     sum, so that an infinite g there makes no NaN
     * @param dy addresses of the rows of dy
     * @param g address of the first row of g, rows {@code gPitchBytes} apart
     */
    static void run(
            Block block,
            SiluGradPolicy policy,
            long[] window,
            int valid,
            int rows,
            long[] dy,
            long g,
            long gPitchBytes) {
        int whole = Lanes.whole(block.channels());
        for (int c = 0; c < whole; c += Lanes.COUNT) {
            gradient(block, policy == SiluGradPolicy.BF16, window, rows, dy, g, gPitchBytes, c);
            if (block.sums() != 0) {
                if (policy == SiluGradPolicy.BF16) {
                    sumFloats(block, window, valid, rows, g, gPitchBytes, c);
                } else {
                    sumDoubles(block, window, valid, rows, g, gPitchBytes, c, 0);
                    sumDoubles(block, window, valid, rows, g, gPitchBytes, c, 1);
                }
            }
        }
        for (int c = whole; c < block.channels(); c++) {
            scalar(block, policy, window, valid, rows, dy, g, gPitchBytes, c);
        }
    }

    private static void gradient(
            Block block, boolean rounded, long[] window, int rows, long[] dy, long g, long gPitchBytes, int c) {
        long taps = block.taps() + c * 4L;
        long planeBytes = block.planeBytes();
        long column = c * 2L;
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
            FloatVector p = ForwardRows.preactivation(x3, x2, x1, x0, w0, w1, w2, w3, bias);
            FloatVector q = rounded ? Lanes.roundBf16(p) : p;
            FloatVector value = Lanes.loadBf16(dy[r] + column).mul(Silu.derivative(q));
            Lanes.storeFloat(value, g + r * gPitchBytes + c * 4L);
            x3 = x2;
            x2 = x1;
            x1 = x0;
        }
    }

    private static void sumFloats(Block block, long[] window, int valid, int rows, long g, long gPitchBytes, int c) {
        long sums = block.sums() + c * 4L;
        long plane = block.sumPlaneBytes();
        long column = c * 2L;
        FloatVector s0 = Lanes.loadFloat(sums);
        FloatVector s1 = Lanes.loadFloat(sums + plane);
        FloatVector s2 = Lanes.loadFloat(sums + 2 * plane);
        FloatVector s3 = Lanes.loadFloat(sums + 3 * plane);
        FloatVector s4 = Lanes.loadFloat(sums + 4 * plane);
        for (int r = 0; r < rows; r++) {
            FloatVector value = Lanes.loadFloat(g + r * gPitchBytes + c * 4L);
            int history = r + valid;
            if (history >= 3) {
                s0 = value.fma(Lanes.loadBf16(window[r] + column), s0);
            }
            if (history >= 2) {
                s1 = value.fma(Lanes.loadBf16(window[r + 1] + column), s1);
            }
            if (history >= 1) {
                s2 = value.fma(Lanes.loadBf16(window[r + 2] + column), s2);
            }
            s3 = value.fma(Lanes.loadBf16(window[r + 3] + column), s3);
            s4 = s4.add(value);
        }
        Lanes.storeFloat(s0, sums);
        Lanes.storeFloat(s1, sums + plane);
        Lanes.storeFloat(s2, sums + 2 * plane);
        Lanes.storeFloat(s3, sums + 3 * plane);
        Lanes.storeFloat(s4, sums + 4 * plane);
    }

    private static void sumDoubles(
            Block block, long[] window, int valid, int rows, long g, long gPitchBytes, int c, int part) {
        long sums = block.sums() + (c + part * Lanes.COUNT / 2) * 8L;
        long plane = block.sumPlaneBytes();
        long column = c * 2L;
        DoubleVector s0 = Lanes.loadDouble(sums);
        DoubleVector s1 = Lanes.loadDouble(sums + plane);
        DoubleVector s2 = Lanes.loadDouble(sums + 2 * plane);
        DoubleVector s3 = Lanes.loadDouble(sums + 3 * plane);
        DoubleVector s4 = Lanes.loadDouble(sums + 4 * plane);
        DoubleVector x3 = Lanes.widen(Lanes.loadBf16(window[0] + column), part);
        DoubleVector x2 = Lanes.widen(Lanes.loadBf16(window[1] + column), part);
        DoubleVector x1 = Lanes.widen(Lanes.loadBf16(window[2] + column), part);
        for (int r = 0; r < rows; r++) {
            DoubleVector x0 = Lanes.widen(Lanes.loadBf16(window[r + 3] + column), part);
            DoubleVector value = Lanes.widen(Lanes.loadFloat(g + r * gPitchBytes + c * 4L), part);
            int history = r + valid;
            if (history >= 3) {
                s0 = value.fma(x3, s0);
            }
            if (history >= 2) {
                s1 = value.fma(x2, s1);
            }
            if (history >= 1) {
                s2 = value.fma(x1, s2);
            }
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
            Block block,
            SiluGradPolicy policy,
            long[] window,
            int valid,
            int rows,
            long[] dy,
            long g,
            long gPitchBytes,
            int c) {
        long taps = block.taps() + c * 4L;
        long planeBytes = block.planeBytes();
        float w0 = Scalars.loadFloat(taps);
        float w1 = Scalars.loadFloat(taps + planeBytes);
        float w2 = Scalars.loadFloat(taps + 2 * planeBytes);
        float w3 = Scalars.loadFloat(taps + 3 * planeBytes);
        float bias = Scalars.loadFloat(taps + 4 * planeBytes);
        long column = c * 2L;
        for (int r = 0; r < rows; r++) {
            float x3 = Scalars.loadBf16(window[r] + column);
            float x2 = Scalars.loadBf16(window[r + 1] + column);
            float x1 = Scalars.loadBf16(window[r + 2] + column);
            float x0 = Scalars.loadBf16(window[r + 3] + column);
            float p = ForwardRows.preactivation(x3, x2, x1, x0, w0, w1, w2, w3, bias);
            float q = policy == SiluGradPolicy.BF16 ? BFloat16.round(p) : p;
            float value = Scalars.loadBf16(dy[r] + column) * Silu.derivative(q);
            Scalars.storeFloat(value, g + r * gPitchBytes + c * 4L);
            if (block.sums() != 0) {
                int firstTap = Math.max(0, 3 - r - valid);
                for (int k = firstTap; k <= 3; k++) {
                    addProduct(block, policy, k, c, value, k == 0 ? x3 : k == 1 ? x2 : k == 2 ? x1 : x0);
                }
                addProduct(block, policy, Taps.BIAS_PLANE, c, value, 1f);
            }
        }
    }

    private static void addProduct(Block block, SiluGradPolicy policy, int plane, int c, float g, float x) {
        long address = block.sums() + plane * block.sumPlaneBytes();
        if (policy == SiluGradPolicy.BF16) {
            long at = address + c * 4L;
            Scalars.storeFloat(Math.fma(g, x, Scalars.loadFloat(at)), at);
        } else {
            long at = address + c * 8L;
            Scalars.storeDouble(Math.fma((double) g, (double) x, Scalars.loadDouble(at)), at);
        }
    }
}
