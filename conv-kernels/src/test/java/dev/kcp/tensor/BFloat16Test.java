package dev.kcp.tensor;

import static org.assertj.core.api.Assertions.assertThat;

import java.math.BigDecimal;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BFloat16Test {
    @Test
    void everyNumberSurvivesTheRoundTrip() {
        for (int bits = 0; bits < 1 << 16; bits++) {
            float value = BFloat16.toFloat((short) bits);
            if (Float.isNaN(value)) {
                assertThat(BFloat16.round(value)).isNaN();
            } else {
                assertThat(BFloat16.fromFloat(value)).isEqualTo((short) bits);
                assertThat(BFloat16.fromDouble(value)).isEqualTo((short) bits);
            }
        }
    }

    @Test
    void tiesGoToEven() {
        assertThat(BFloat16.round(1 + 0x1p-8f)).isEqualTo(1f);
        assertThat(BFloat16.round(1 + 0x3p-8f)).isEqualTo(1 + 0x4p-8f);
        assertThat(BFloat16.round(Float.MAX_VALUE)).isInfinite();
        assertThat(BFloat16.round(Float.intBitsToFloat(0x7F800001))).isNaN();
    }

    @Test
    void doublesAreRoundedOnce() {
        double justAboveATie = 1 + 0x1p-8 + 0x1p-40;
        assertThat(BFloat16.toFloat(BFloat16.fromDouble(justAboveATie))).isEqualTo(1 + 0x1p-7f);
        assertThat(BFloat16.round((float) justAboveATie)).isEqualTo(1f);
        Random random = new Random(3);
        for (int i = 0; i < 100_000; i++) {
            double value = random.nextGaussian() * Math.pow(2, random.nextInt(200) - 100);
            assertThat(BFloat16.toFloat(BFloat16.fromDouble(value))).isEqualTo(nearest(value));
        }
    }

    private static float nearest(double value) {
        float low = Float.intBitsToFloat(Float.floatToRawIntBits((float) value) & 0xFFFF0000);
        if (Math.abs(low) > Math.abs(value)) {
            low = Float.intBitsToFloat(Float.floatToRawIntBits(low) - 0x10000);
        }
        float high = Float.intBitsToFloat(Float.floatToRawIntBits(low) + 0x10000);
        int order = distance(value, low).compareTo(distance(value, high));
        boolean lowIsEven = (Float.floatToRawIntBits(low) & 0x10000) == 0;
        return order < 0 || order == 0 && lowIsEven ? low : high;
    }

    private static BigDecimal distance(double a, float b) {
        return new BigDecimal(a).subtract(new BigDecimal(b)).abs();
    }
}
