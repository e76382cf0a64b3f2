package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.Tensor;

/** The contract's accuracy, said once. */
public final class Tolerance {
    /** Relative L2 of dweight and dbias under policy FP32. */
    public static final double SUMS_FP32 = 4e-7;
    /** Under policy BF16 against the gradient with the same rounded preactivation, a few of which meet a tie. */
    public static final double SUMS_BF16 = 3e-4;
    /** y and dx this small count as zero. */
    private static final double TINY = 1e-30;

    /** What the preactivation's FP32 sum may lose where its terms cancel: y is BF16, but no digit comes back. */
    private static final double P_TERMS = 0x1p-21;

    private static final double DX_TERMS = 0x1p-20;
    /** Share of dx elements that may be further off. */
    private static final double DX_EXCEPTIONS = 1e-4;

    private Tolerance() {}

    public static void assertY(Tensor y, ReferenceConv.Result expected) {
        double[][] numbers = ConvCase.numbers(y);
        for (int r = 0; r < expected.y().length; r++) {
            for (int c = 0; c < expected.y()[r].length; c++) {
                double got = numbers[r][c];
                double want = expected.y()[r][c];
                double allowed = Math.max(ulp(want), P_TERMS * expected.pTerms()[r][c]);
                if (!(Math.abs(got - want) <= Math.max(allowed, TINY))) {
                    throw new AssertionError(
                            "y[" + r + "][" + c + "]=" + got + " expected=" + want + " allowed=" + allowed);
                }
            }
        }
    }

    public static void assertDx(Tensor dx, ReferenceConv.Result expected) {
        double[][] numbers = ConvCase.numbers(dx);
        long wrong = 0;
        long all = 0;
        for (int r = 0; r < expected.dx().length; r++) {
            for (int c = 0; c < expected.dx()[r].length; c++, all++) {
                double want = expected.dx()[r][c];
                double allowed = Math.max(ulp(want), DX_TERMS * expected.dxTerms()[r][c]);
                wrong += Math.abs(numbers[r][c] - want) > Math.max(allowed, TINY) ? 1 : 0;
            }
        }
        assertThat(wrong).as("dx elements out of %d", all).isLessThanOrEqualTo((long) (all * DX_EXCEPTIONS));
    }

    public static void assertSums(Tensor dweight, Tensor dbias, ReferenceConv.Result expected, SiluGradPolicy policy) {
        double limit = policy == SiluGradPolicy.FP32 ? SUMS_FP32 : SUMS_BF16;
        assertThat(relativeL2(dweight, expected.dweight())).as("dweight").isLessThanOrEqualTo(limit);
        if (dbias != null) {
            assertThat(relativeL2(dbias, new double[][] {expected.dbias()}))
                    .as("dbias")
                    .isLessThanOrEqualTo(limit);
        }
    }

    /** How many elements are off by more than a BF16 ulp. */
    public static long beyondAnUlp(Tensor got, double[][] expected) {
        double[][] numbers = ConvCase.numbers(got);
        long beyond = 0;
        for (int r = 0; r < expected.length; r++) {
            for (int c = 0; c < expected[r].length; c++) {
                beyond += Math.abs(numbers[r][c] - expected[r][c]) > ulp(expected[r][c]) ? 1 : 0;
            }
        }
        return beyond;
    }

    public static double relativeL2(Tensor got, double[][] expected) {
        double[][] numbers = ConvCase.numbers(got);
        double off = 0;
        double norm = 0;
        for (int r = 0; r < expected.length; r++) {
            for (int c = 0; c < expected[r].length; c++) {
                double difference = numbers[r][c] - expected[r][c];
                off += difference * difference;
                norm += expected[r][c] * expected[r][c];
            }
        }
        return norm == 0 ? Math.sqrt(off) : Math.sqrt(off / norm);
    }

    public static void assertSameBits(String name, Tensor got, Tensor expected) {
        long mismatch = got.segment().mismatch(expected.segment());
        assertThat(mismatch)
                .as("%s: first differing byte of %s", name, expected)
                .isEqualTo(-1);
    }

    private static double ulp(double value) {
        float rounded = BFloat16.round((float) value);
        return Math.ulp(rounded) * 0x1p16;
    }
}
