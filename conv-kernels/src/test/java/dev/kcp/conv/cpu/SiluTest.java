package dev.kcp.conv.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.tensor.BFloat16;
import java.util.Random;
import jdk.incubator.vector.FloatVector;
import org.junit.jupiter.api.Test;

class SiluTest {
    /** FP32 ulps, as docs/math.md states them: found over all floats, rounded up in the third digit. */
    private static final double EXP_ULPS = 0.883;

    /** Where exp is below the least normal number. */
    private static final double EXP_BELOW = 8.32e-39;

    private static final double SILU_ULPS = 3.57;
    private static final double DERIVATIVE_ULPS = 4.22;
    /** A prime, so that all low bits come up. */
    private static final long STRIDE = 1021;

    @Test
    void vectorAndScalarGiveTheSameBits() {
        float[] in = new float[Lanes.COUNT];
        Random random = new Random(1);
        for (int i = 0; i < 200_000; i += in.length) {
            for (int j = 0; j < in.length; j++) {
                in[j] = i < 100_000 ? (float) (random.nextGaussian() * 20) : anyFloat(random);
            }
            FloatVector v = FloatVector.fromArray(Lanes.FLOAT, in, 0);
            for (int j = 0; j < in.length; j++) {
                sameBits(in[j], Silu.silu(v).lane(j), Silu.silu(in[j]));
                sameBits(in[j], Silu.derivative(v).lane(j), Silu.derivative(in[j]));
                sameBits(in[j], Lanes.roundBf16(v).lane(j), BFloat16.round(in[j]));
            }
        }
    }

    /** Any bits, but a NaN only as kernels meet it: with a lower half of zeros. */
    private static float anyFloat(Random random) {
        int bits = random.nextInt();
        return Float.intBitsToFloat(Float.isNaN(Float.intBitsToFloat(bits)) ? bits & 0xFFFF0000 | 0x400000 : bits);
    }

    private static void sameBits(float at, float got, float expected) {
        if (Float.isNaN(expected) && Float.isNaN(got)) {
            return;
        }
        assertThat(Float.floatToRawIntBits(got)).as("at %s", at).isEqualTo(Float.floatToRawIntBits(expected));
    }

    /** Every 1021st float; {@link EveryFloat} looks at all of them, and docs/math.md states what it found. */
    @Test
    void errorsOverAllFloatsAreThoseOfTheDocumentation() {
        SiluErrors errors = new SiluErrors();
        for (long bits = 0; bits < 1L << 32; bits += STRIDE) {
            float p = Float.intBitsToFloat((int) bits);
            if (!Float.isNaN(p)) {
                errors.add(p);
            }
        }
        assertThat(errors.numbers).isGreaterThan(4_000_000);
        assertThat(errors.exp.error).as("exp: %s", errors.exp).isBetween(0.8, EXP_ULPS);
        assertThat(errors.expBelow.error).as("small exp: %s", errors.expBelow).isLessThan(EXP_BELOW);
        assertThat(errors.silu.error).as("silu: %s", errors.silu).isBetween(3.0, SILU_ULPS);
        assertThat(errors.derivative.error)
                .as("derivative: %s", errors.derivative)
                .isBetween(3.0, DERIVATIVE_ULPS);
        assertThat(errors.wrongLimits).isZero();
        assertThat(Silu.expOfMinusAbs(88)).isZero();
        assertThat(Silu.expOfMinusAbs(0)).isEqualTo(1);
    }

    /** The numbers at which the run over all floats found the largest errors. */
    @Test
    void theWorstNumbersOfAllAreAsDocumented() {
        SiluErrors errors = new SiluErrors();
        for (float p : new float[] {26.68565f, 87.68312f, -3.2234724f, -13.801602f}) {
            errors.add(p);
        }
        assertThat(errors.exp.error).isBetween(0.882, EXP_ULPS);
        assertThat(errors.expBelow.error).isBetween(8.31e-39, EXP_BELOW);
        assertThat(errors.silu.error).isBetween(3.561, SILU_ULPS);
        assertThat(errors.derivative.error).isBetween(4.217, DERIVATIVE_ULPS);
    }

    @Test
    void everyBf16NumberIsRightAndTheSameInVectors() {
        float[] in = new float[Lanes.COUNT];
        for (int bits = 0; bits < 1 << 16; bits += in.length) {
            for (int j = 0; j < in.length; j++) {
                in[j] = BFloat16.toFloat((short) (bits + j));
            }
            FloatVector v = FloatVector.fromArray(Lanes.FLOAT, in, 0);
            FloatVector silu = Silu.silu(v);
            FloatVector derivative = Silu.derivative(v);
            for (int j = 0; j < in.length; j++) {
                float p = in[j];
                if (Float.isNaN(p)) {
                    assertThat(silu.lane(j)).isNaN();
                    assertThat(derivative.lane(j)).isNaN();
                    continue;
                }
                sameBits(p, silu.lane(j), Silu.silu(p));
                sameBits(p, derivative.lane(j), Silu.derivative(p));
                if (Math.abs(p) < 88) {
                    double s = p >= 0 ? 1 / (1 + Math.exp(-(double) p)) : Math.exp(p) / (1 + Math.exp((double) p));
                    double r = p >= 0 ? Math.exp(-(double) p) / (1 + Math.exp(-(double) p)) : 1 / (1 + Math.exp(p));
                    near(p, Silu.silu(p), p * s, SILU_ULPS);
                    nearTerms(p, Silu.derivative(p), s * (1 + p * r), s * (1 + Math.abs(p) * r));
                } else {
                    assertThat(Silu.silu(p)).isEqualTo(p > 0 ? p : -0f);
                    assertThat(Silu.derivative(p)).isEqualTo(p > 0 ? 1f : -0f);
                }
            }
        }
    }

    private static void near(float at, float got, double expected, double ulps) {
        assertThat(Math.abs(got - expected))
                .as("at %s", at)
                .isLessThanOrEqualTo(Math.max(ulps * Math.ulp((float) expected), Float.MIN_NORMAL));
    }

    /** Near a zero of the derivative its terms cancel; what counts is an ulp of them. */
    private static void nearTerms(float at, float got, double expected, double terms) {
        assertThat(Math.abs(got - expected))
                .as("derivative at %s", at)
                .isLessThanOrEqualTo(Math.max(DERIVATIVE_ULPS * Math.ulp((float) terms), Float.MIN_NORMAL));
    }

    @Test
    void infinitiesEndWhereSiluDoes() {
        float inf = Float.POSITIVE_INFINITY;
        assertThat(Silu.silu(inf)).isEqualTo(inf);
        assertThat(Float.floatToRawIntBits(Silu.silu(-inf))).isEqualTo(Float.floatToRawIntBits(-0f));
        assertThat(Silu.derivative(inf)).isEqualTo(1);
        assertThat(Silu.derivative(-inf)).isZero();
        assertThat(Silu.silu(-Float.MAX_VALUE)).isZero();
        assertThat(Silu.derivative(Float.MAX_VALUE)).isEqualTo(1);
        assertThat(Silu.silu(Float.NaN)).isNaN();
        assertThat(Silu.derivative(Float.NaN)).isNaN();
    }
}
