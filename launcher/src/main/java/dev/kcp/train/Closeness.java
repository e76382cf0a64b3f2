package dev.kcp.train;

import dev.kcp.tensor.BFloat16;
import java.util.Arrays;

/**
 * How near two numbers must be to count as the same.
 *
 * @param tolerance allowed error as a share of the greater of size and floor; 0 where bits are compared
 * @param floor size below which errors are no longer relative
 */
record Closeness(double tolerance, double floor) {
    static final Closeness BITS = new Closeness(0, 0);

    /** Relative to BF16 numbers' root mean square. */
    static Closeness of(double tolerance, short[] reference) {
        double squares = 0;
        for (short bits : reference) {
            double value = BFloat16.toFloat(bits);
            squares += value * value;
        }
        return new Closeness(tolerance, Math.sqrt(squares / Math.max(reference.length, 1)));
    }

    /** Relative to FP32 numbers' root mean square. */
    static Closeness of(double tolerance, float[] reference, int begin, int length) {
        double squares = 0;
        for (int i = begin; i < begin + length; i++) {
            squares += (double) reference[i] * reference[i];
        }
        return new Closeness(tolerance, Math.sqrt(squares / length));
    }

    /** First of {@code length} BF16 numbers that is not close, from its begin; -1 where all are. */
    int firstFar(short[] actual, int actualBegin, short[] reference, int referenceBegin, int length) {
        int at = Arrays.mismatch(
                actual, actualBegin, actualBegin + length, reference, referenceBegin, referenceBegin + length);
        while (at >= 0 && at < length && isClose(actual[actualBegin + at], reference[referenceBegin + at])) {
            at++;
        }
        return at == length ? -1 : at;
    }

    private boolean isClose(short actual, short reference) {
        return actual == reference || isClose(BFloat16.toFloat(actual), BFloat16.toFloat(reference));
    }

    /** First of {@code length} FP32 numbers that is not close, from {@code begin}; -1 where all are. */
    int firstFar(float[] actual, float[] reference, int begin, int length) {
        for (int i = 0; i < length; i++) {
            float a = actual[begin + i];
            float b = reference[begin + i];
            if (Float.floatToRawIntBits(a) != Float.floatToRawIntBits(b) && !isClose(a, b)) {
                return i;
            }
        }
        return -1;
    }

    private boolean isClose(double actual, double reference) {
        return tolerance > 0 && Math.abs(actual - reference) <= tolerance * Math.max(Math.abs(reference), floor);
    }

    static String text(short bits) {
        return Float.toString(BFloat16.toFloat(bits));
    }
}
