package dev.kcp.train.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.Floats;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import jdk.incubator.vector.FloatVector;
import org.junit.jupiter.api.Test;

class LanesTest {
    @Test
    void castToBf16RoundsAsBFloat16Does() {
        Random random = new Random(1);
        int[] special = {
            0,
            0x80000000,
            0x7F800000,
            0xFF800000,
            0x7F7FFFFF,
            0x3F808000,
            0x3F818000,
            0x3F808001,
            0x00000001,
            0x807FFFFF
        };
        try (Floats from = new Floats(4096);
                Tensor to = Tensor.zeros(DType.BF16, 4096)) {
            for (int i = 0; i < from.elements(); i++) {
                int bits = i < special.length ? special[i] : random.nextInt();
                float value = Float.intBitsToFloat(bits);
                from.set(i, Float.isNaN(value) ? 1 : value);
            }
            Casts.toBf16(from.address(), to.address(), from.elements());
            for (int i = 0; i < from.elements(); i++) {
                assertThat(bf16(to, i)).isEqualTo(BFloat16.fromFloat(from.get(i)));
            }
        }
    }

    @Test
    void castKeepsNan() {
        try (Floats values = new Floats(8);
                Tensor narrow = Tensor.zeros(DType.BF16, 8)) {
            // Rounding these upwards as numbers would turn them into zero or infinity.
            values.set(0, Float.intBitsToFloat(0x7FFFFFFF));
            values.set(1, Float.intBitsToFloat(0x7F800001));
            Casts.toBf16(values.address(), narrow.address(), 8);
            assertThat(BFloat16.toFloat(bf16(narrow, 0))).isNaN();
            assertThat(BFloat16.toFloat(bf16(narrow, 1))).isNaN();
            Casts.toFloat(narrow.address(), values.address(), 8);
            assertThat(values.get(0)).isNaN();
            assertThat(values.get(2)).isZero();
        }
    }

    @Test
    void castFromBf16IsExactForAllNumbers() {
        try (Tensor from = Tensor.zeros(DType.BF16, 1 << 16);
                Floats to = new Floats(1 << 16)) {
            for (int i = 0; i < 1 << 16; i++) {
                HostMemory.ALL.set(ValueLayout.JAVA_SHORT, from.address() + 2L * i, (short) i);
            }
            Casts.toFloat(from.address(), to.address(), 1 << 16);
            for (int i = 0; i < 1 << 16; i++) {
                assertThat(Float.floatToRawIntBits(to.get(i))).isEqualTo(i << 16);
            }
        }
    }

    @Test
    void exponentialIsCloseEverywhere() {
        for (float x = 0; x > -87; x -= 0.00371f) {
            float power =
                    Lanes.expOfNegative(FloatVector.broadcast(Lanes.FLOATS, x)).lane(0);
            double exact = Math.exp(x);
            assertThat(Math.abs(power - exact)).as("x=%s", x).isLessThanOrEqualTo(2 * Math.ulp((float) exact));
        }
    }

    @Test
    void exponentialEndsInTinyNumbersAndStartsAtOne() {
        assertThat(exp(0)).isEqualTo(1);
        assertThat(exp(-1000)).isPositive().isLessThan(1e-37f);
        assertThat(exp(Float.NEGATIVE_INFINITY)).isPositive().isLessThan(1e-37f);
        assertThat(exp(Float.NaN)).isNaN();
    }

    @Test
    void sumTakesEveryLane() {
        float[] lanes = {1, 2, 4, 8, 16, 32, 64, 128};
        assertThat(Lanes.sum(FloatVector.fromArray(Lanes.FLOATS, lanes, 0))).isEqualTo(255);
    }

    private static float exp(float x) {
        return Lanes.expOfNegative(FloatVector.broadcast(Lanes.FLOATS, x)).lane(3);
    }

    private static short bf16(Tensor tensor, int element) {
        return HostMemory.ALL.get(ValueLayout.JAVA_SHORT, tensor.address() + 2L * element);
    }
}
