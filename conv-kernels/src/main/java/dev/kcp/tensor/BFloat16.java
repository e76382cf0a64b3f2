package dev.kcp.tensor;

/** BF16 is the upper half of an FP32 number; rounding is to nearest, ties to even, NaN stays NaN. */
public final class BFloat16 {
    private BFloat16() {}

    /** The number of these bits, exactly. */
    public static float toFloat(short bits) {
        return Float.intBitsToFloat(bits << 16);
    }

    /** The bits of the nearest BF16 number, ties to even; a NaN stays one. */
    public static short fromFloat(float value) {
        int bits = Float.floatToRawIntBits(value);
        if (value != value) {
            return (short) (bits >>> 16 | 0x40);
        }
        return (short) (bits + 0x7FFF + (bits >>> 16 & 1) >>> 16);
    }

    /** One rounding from FP64, not two: the FP32 step rounds to odd, so that no tie is made that was none. */
    public static short fromDouble(double value) {
        float nearest = (float) value;
        if (nearest == value || nearest != nearest || Float.isInfinite(nearest)) {
            return fromFloat(nearest);
        }
        int bits = Float.floatToRawIntBits(nearest);
        if (Math.abs((double) nearest) > Math.abs(value)) {
            bits--;
        }
        return fromFloat(Float.intBitsToFloat(bits | 1));
    }

    /** The FP32 number that {@code value} becomes when stored as BF16. */
    public static float round(float value) {
        return toFloat(fromFloat(value));
    }
}
