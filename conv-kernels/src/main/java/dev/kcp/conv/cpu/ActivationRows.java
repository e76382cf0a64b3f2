package dev.kcp.conv.cpu;

import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.BFloat16;
import jdk.incubator.vector.FloatVector;

/** What is made of preactivations, row by row: y forward, g backward. */
final class ActivationRows {
    private ActivationRows() {}

    /**
     * y = bf16(silu(p)).
     *
     * @param p FP32 rows of a block of channels
     * @param whole leading channels to take as vectors
     * @param y address of the first row's output at the block's first channel
     */
    static void silu(long p, long pPitchBytes, int rows, int whole, int channels, long y, long yPitchBytes) {
        for (int r = 0; r < rows; r++) {
            long from = p + r * pPitchBytes;
            long to = y + r * yPitchBytes;
            for (int c = 0; c < whole; c += Lanes.COUNT) {
                Lanes.storeBf16(Silu.silu(Lanes.loadFloat(from + c * 4L)), to + c * 2L);
            }
            for (int c = whole; c < channels; c++) {
                Scalars.storeBf16(Silu.silu(Scalars.loadFloat(from + c * 4L)), to + c * 2L);
            }
        }
    }

    /**
     * g = dy * silu'(q), in place of p.
     *
     * @param p FP32 rows of a block of channels
     * @param whole leading channels to take as vectors
     * @param dy addresses of the rows of dy at the block's first channel
     */
    static void gradient(
            SiluGradPolicy policy, long p, long pPitchBytes, int rows, int whole, int channels, long[] dy) {
        for (int r = 0; r < rows; r++) {
            if (policy == SiluGradPolicy.BF16) {
                gradientAtRounded(p + r * pPitchBytes, whole, channels, dy[r]);
            } else {
                gradientAtExact(p + r * pPitchBytes, whole, channels, dy[r]);
            }
        }
    }

    private static void gradientAtRounded(long row, int whole, int channels, long dy) {
        for (int c = 0; c < whole; c += Lanes.COUNT) {
            FloatVector q = Lanes.roundBf16(Lanes.loadFloat(row + c * 4L));
            Lanes.storeFloat(Lanes.loadBf16(dy + c * 2L).mul(Silu.derivative(q)), row + c * 4L);
        }
        for (int c = whole; c < channels; c++) {
            float q = BFloat16.round(Scalars.loadFloat(row + c * 4L));
            Scalars.storeFloat(Scalars.loadBf16(dy + c * 2L) * Silu.derivative(q), row + c * 4L);
        }
    }

    private static void gradientAtExact(long row, int whole, int channels, long dy) {
        for (int c = 0; c < whole; c += Lanes.COUNT) {
            FloatVector q = Lanes.loadFloat(row + c * 4L);
            Lanes.storeFloat(Lanes.loadBf16(dy + c * 2L).mul(Silu.derivative(q)), row + c * 4L);
        }
        for (int c = whole; c < channels; c++) {
            float q = Scalars.loadFloat(row + c * 4L);
            Scalars.storeFloat(Scalars.loadBf16(dy + c * 2L) * Silu.derivative(q), row + c * 4L);
        }
    }
}
