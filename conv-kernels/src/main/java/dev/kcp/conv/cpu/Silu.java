package dev.kcp.conv.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;

/**
 * SiLU and its derivative from IEEE multiply, add, fma and divide alone, as docs/math.md specifies them; the scalar and
 * the vector form give the same bits. Both sigmoids come from one exponential e = exp(-|p|) in (0, 1]: sigmoid(|p|) =
 * 1 / (1 + e) and sigmoid(-|p|) = e * (1 / (1 + e)), so that no digit is lost where sigmoid saturates.
 */
final class Silu {
    /** From here on exp(-p) is taken as 0; it keeps products with infinite preactivations from becoming NaN. */
    private static final float SATURATED = 88f;

    private static final float LOG2_E = Float.intBitsToFloat(0x3FB8AA3B);
    /** 1.5 * 2^23 + 127: adding it leaves the biased exponent of 2^n in the low bits. */
    private static final float SHIFT = 12583039f;

    private static final float LN2_HIGH = Float.intBitsToFloat(0x3F317000);
    private static final float LN2_LOW = Float.intBitsToFloat(0x3805FDF4);
    private static final float C2 = Float.intBitsToFloat(0x3EFFFFFE);
    private static final float C3 = Float.intBitsToFloat(0x3E2AAA49);
    private static final float C4 = Float.intBitsToFloat(0x3D2AAC79);
    private static final float C5 = Float.intBitsToFloat(0x3C091D10);
    private static final float C6 = Float.intBitsToFloat(0x3AB511E7);

    private Silu() {}

    /** exp(-|p|), 0 for |p| of about 87.7 and more. */
    static float expOfMinusAbs(float p) {
        float abs = Math.abs(p);
        float a = abs > SATURATED ? SATURATED : abs;
        float shifted = Math.fma(a, -LOG2_E, SHIFT);
        float n = shifted - SHIFT;
        float r = Math.fma(n, -LN2_LOW, Math.fma(n, -LN2_HIGH, -a));
        float q = Math.fma(Math.fma(Math.fma(Math.fma(C6, r, C5), r, C4), r, C3), r, C2);
        float mantissa = Math.fma(Math.fma(q, r, 1f), r, 1f);
        return mantissa * Float.intBitsToFloat(Float.floatToRawIntBits(shifted) << 23);
    }

    /** p * sigmoid(p). */
    static float silu(float p) {
        float e = expOfMinusAbs(p);
        float high = 1f / (1f + e);
        float sigmoid = p >= 0f ? high : e * high;
        return (p < -SATURATED ? -SATURATED : p) * sigmoid;
    }

    /** Derivative of {@link #silu} at q: s(q) * (1 + q * s(-q)). */
    static float derivative(float q) {
        float e = expOfMinusAbs(q);
        float high = 1f / (1f + e);
        float low = e * high;
        float bounded = q > SATURATED ? SATURATED : q < -SATURATED ? -SATURATED : q;
        return q >= 0f ? high * Math.fma(bounded, low, 1f) : low * Math.fma(bounded, high, 1f);
    }

    static FloatVector expOfMinusAbs(FloatVector p) {
        FloatVector abs = p.abs();
        FloatVector a = abs.blend(SATURATED, abs.compare(VectorOperators.GT, SATURATED));
        FloatVector shifted = a.fma(broadcast(-LOG2_E), broadcast(SHIFT));
        FloatVector n = shifted.sub(SHIFT);
        FloatVector r = n.fma(broadcast(-LN2_LOW), n.fma(broadcast(-LN2_HIGH), a.neg()));
        FloatVector q = broadcast(C6)
                .fma(r, broadcast(C5))
                .fma(r, broadcast(C4))
                .fma(r, broadcast(C3))
                .fma(r, broadcast(C2));
        FloatVector mantissa = q.fma(r, broadcast(1f)).fma(r, broadcast(1f));
        return mantissa.mul(
                shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats());
    }

    static FloatVector silu(FloatVector p) {
        FloatVector e = expOfMinusAbs(p);
        FloatVector high = broadcast(1f).div(e.add(1f));
        FloatVector sigmoid = e.mul(high).blend(high, p.compare(VectorOperators.GE, 0f));
        return p.blend(-SATURATED, p.compare(VectorOperators.LT, -SATURATED)).mul(sigmoid);
    }

    static FloatVector derivative(FloatVector q) {
        FloatVector e = expOfMinusAbs(q);
        FloatVector high = broadcast(1f).div(e.add(1f));
        FloatVector low = e.mul(high);
        VectorMask<Float> positive = q.compare(VectorOperators.GE, 0f);
        FloatVector bounded = q.blend(SATURATED, q.compare(VectorOperators.GT, SATURATED))
                .blend(-SATURATED, q.compare(VectorOperators.LT, -SATURATED));
        FloatVector here = low.blend(high, positive);
        FloatVector there = high.blend(low, positive);
        return here.mul(bounded.fma(there, broadcast(1f)));
    }

    private static FloatVector broadcast(float value) {
        return FloatVector.broadcast(Lanes.FLOAT, value);
    }
}
