package dev.kcp.conv.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.tensor.BFloat16;
import java.util.Random;
import jdk.incubator.vector.FloatVector;
import org.junit.jupiter.api.Test;

class SiluTest {
    /** FP32 ulps of exp, and of what is made of it with a division and two products. */
    private static final double EXP_ULPS = 1;

    private static final double SILU_ULPS = 4;
    private static final double DERIVATIVE_ULPS = 6;

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

    @Test
    void exponentialIsWithinOneUlp() {
        for (float p = 0; p < 87; p += 0.0007f) {
            double expected = Math.exp(-(double) p);
            assertThat(Math.abs(Silu.expOfMinusAbs(p) - expected))
                    .as("exp(-%s)", p)
                    .isLessThanOrEqualTo(EXP_ULPS * Math.ulp((float) expected));
        }
        assertThat(Silu.expOfMinusAbs(88)).isZero();
        assertThat(Silu.expOfMinusAbs(0)).isEqualTo(1);
    }

    @Test
    void siluIsWithinFourUlpsOnBothSides() {
        for (float p = -87; p < 100; p += 0.0013f) {
            double sigmoid = p >= 0 ? 1 / (1 + Math.exp(-(double) p)) : Math.exp(p) / (1 + Math.exp((double) p));
            double expected = p * sigmoid;
            assertThat(Math.abs(Silu.silu(p) - expected))
                    .as("silu(%s)", p)
                    .isLessThanOrEqualTo(SILU_ULPS * Math.ulp((float) expected));
        }
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
                .isLessThanOrEqualTo(Math.max(DERIVATIVE_ULPS * terms * 0x1p-24, Float.MIN_NORMAL));
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
