package dev.kcp.conv.cpu;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
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

    // Broadcast once: a kernel made of fewer nodes is one that the compiler still inlines as a whole.
    private static final FloatVector V_ZERO = broadcast(0f);
    private static final FloatVector V_ONE = broadcast(1f);
    private static final FloatVector V_SATURATED = broadcast(SATURATED);
    private static final IntVector V_SATURATED_BITS = V_SATURATED.reinterpretAsInts();
    private static final FloatVector V_MINUS_LOG2_E = broadcast(-LOG2_E);
    private static final FloatVector V_SHIFT = broadcast(SHIFT);
    private static final FloatVector V_MINUS_LN2_HIGH = broadcast(-LN2_HIGH);
    private static final FloatVector V_MINUS_LN2_LOW = broadcast(-LN2_LOW);
    private static final FloatVector V_C2 = broadcast(C2);
    private static final FloatVector V_C3 = broadcast(C3);
    private static final FloatVector V_C4 = broadcast(C4);
    private static final FloatVector V_C5 = broadcast(C5);
    private static final FloatVector V_C6 = broadcast(C6);

    private Silu() {}

    private static FloatVector broadcast(float value) {
        return FloatVector.broadcast(Lanes.FLOAT, value);
    }

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

    /** exp of minus {@code a} in [0, 88], given minus {@code a} too. */
    private static FloatVector expOfMinus(FloatVector a, FloatVector minusA) {
        FloatVector shifted = a.fma(V_MINUS_LOG2_E, V_SHIFT);
        FloatVector n = shifted.sub(V_SHIFT);
        FloatVector r = n.fma(V_MINUS_LN2_LOW, n.fma(V_MINUS_LN2_HIGH, minusA));
        FloatVector q = V_C6.fma(r, V_C5).fma(r, V_C4).fma(r, V_C3).fma(r, V_C2);
        FloatVector mantissa = q.fma(r, V_ONE).fma(r, V_ONE);
        return mantissa.mul(
                shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats());
    }

    /** Positive floats are ordered as their bits are; a NaN becomes 88 here and comes back with p itself. */
    static FloatVector silu(FloatVector p) {
        FloatVector a = p.abs()
                .reinterpretAsInts()
                .lanewise(VectorOperators.MIN, V_SATURATED_BITS)
                .reinterpretAsFloats();
        FloatVector minusA = a.neg();
        FloatVector e = expOfMinus(a, minusA);
        FloatVector high = V_ONE.div(e.add(V_ONE));
        FloatVector below = minusA.mul(e.mul(high));
        return p.mul(high).blend(below, p.compare(VectorOperators.LT, V_ZERO));
    }

    /** Here a NaN stays one in a, and so in every product. */
    static FloatVector derivative(FloatVector q) {
        FloatVector abs = q.abs();
        FloatVector a = abs.blend(V_SATURATED, abs.compare(VectorOperators.GT, V_SATURATED));
        FloatVector minusA = a.neg();
        FloatVector e = expOfMinus(a, minusA);
        FloatVector high = V_ONE.div(e.add(V_ONE));
        FloatVector low = e.mul(high);
        VectorMask<Float> negative = q.compare(VectorOperators.LT, V_ZERO);
        FloatVector here = high.blend(low, negative);
        FloatVector there = low.blend(high, negative);
        return here.mul(a.blend(minusA, negative).fma(there, V_ONE));
    }
}
