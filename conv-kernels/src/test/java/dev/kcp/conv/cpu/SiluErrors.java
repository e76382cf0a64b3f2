package dev.kcp.conv.cpu;

/**
 * The largest errors of {@link Silu} over the numbers that were looked at, against FP64. An ulp is that of the exact result
 * rounded to FP32; of the derivative, whose two terms may cancel, that of s(q) * (1 + |q| * s(-q)).
 */
final class SiluErrors {
    /** From here to {@link #ZERO} exp(-a) is below the least normal number: 126 * ln 2. */
    static final float SUBNORMAL = 87.336544f;

    /** From here on the result is 0. */
    static final float CLAMPED = 88;

    /** The largest error in ulp and where it is. */
    static final class Worst {
        double error;
        float at;

        private void add(double found, float here) {
            if (found > error) {
                error = found;
                at = here;
            }
        }

        @Override
        public String toString() {
            return error + " at " + at + " (0x" + Integer.toHexString(Float.floatToRawIntBits(at)) + ")";
        }
    }

    /** exp(-|p|), in ulp, where that is normal. */
    final Worst exp = new Worst();
    /** exp(-|p|) where it is less, absolute. */
    final Worst expBelow = new Worst();

    final Worst silu = new Worst();
    final Worst derivative = new Worst();
    long numbers;
    /** Numbers beyond the clamp at which a result was not its limit. */
    long wrongLimits;

    /** Looks at one number that is no NaN. */
    void add(float p) {
        numbers++;
        float a = Math.abs(p);
        if (a > CLAMPED) {
            addBeyond(p);
            return;
        }
        double e = Math.exp(-(double) a);
        float found = Silu.expOfMinusAbs(p);
        if (a > SUBNORMAL) {
            expBelow.add(Math.abs(found - e), p);
            return;
        }
        exp.add(Math.abs(found - e) / ulp(e), p);
        double high = 1 / (1 + e);
        double here = p >= 0 ? high : e * high;
        double there = p >= 0 ? e * high : high;
        double wantSilu = p * here;
        silu.add(Math.abs(Silu.silu(p) - wantSilu) / ulp(wantSilu), p);
        double terms = here * (1 + a * there);
        derivative.add(Math.abs(Silu.derivative(p) - here * (1 + p * there)) / ulp(terms), p);
    }

    private void addBeyond(float p) {
        boolean right =
                p > 0 ? Silu.silu(p) == p && Silu.derivative(p) == 1 : Silu.silu(p) == 0 && Silu.derivative(p) == 0;
        wrongLimits += right && Silu.expOfMinusAbs(p) == 0 ? 0 : 1;
    }

    private static float ulp(double expected) {
        return Math.ulp((float) expected);
    }

    void add(SiluErrors other) {
        exp.add(other.exp.error, other.exp.at);
        expBelow.add(other.expBelow.error, other.expBelow.at);
        silu.add(other.silu.error, other.silu.at);
        derivative.add(other.derivative.error, other.derivative.at);
        numbers += other.numbers;
        wrongLimits += other.wrongLimits;
    }
}
