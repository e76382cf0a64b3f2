package dev.kcp.conv.cpu;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;

/**
 * Taps and bias as five FP32 planes of C channels: taps 0 (oldest) to 3, then the bias. Without a bias the fifth plane is
 * -0, the number that changes no other by being added.
 */
final class Taps {
    static final int PLANES = 5;
    static final int BIAS_PLANE = 4;

    private Taps() {}

    static long bytes(long channels) {
        return PLANES * channels * Float.BYTES;
    }

    static void fill(long planes, Tensor weight, Tensor bias) {
        int channels = (int) weight.rows();
        for (int c = 0; c < channels; c++) {
            for (int k = 0; k < BIAS_PLANE; k++) {
                put(planes, channels, k, c, get(weight, weight.rowAddress(c), k));
            }
            put(planes, channels, BIAS_PLANE, c, bias == null ? -0f : get(bias, bias.address(), c));
        }
    }

    private static void put(long planes, long channels, int plane, int channel, float value) {
        // Every NaN the same, with a lower half of zeros: rounding to BF16 then needs no case for it.
        float canonical = value == value ? value : Float.NaN;
        HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, planes + (plane * channels + channel) * Float.BYTES, canonical);
    }

    private static float get(Tensor tensor, long address, long index) {
        return tensor.dtype() == DType.F32
                ? HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address + index * Float.BYTES)
                : BFloat16.toFloat(HostMemory.ALL.get(ValueLayout.JAVA_SHORT, address + index * Short.BYTES));
    }
}
