package dev.kcp.conv.cpu;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.HostMemory;
import java.lang.foreign.ValueLayout;

/** Loads and stores of one channel by absolute address, for the channels left over by whole vectors. */
final class Scalars {
    /**
     * The one NaN of y and dx, that of the GPU's conversion. An operation's own NaN has the sign of whichever operand the
     * compiled code puts first, which differs from program to program.
     */
    static final short STORED_NAN = 0x7FFF;

    private Scalars() {}

    static float loadBf16(long address) {
        return BFloat16.toFloat(HostMemory.ALL.get(ValueLayout.JAVA_SHORT, address));
    }

    static void storeBf16(float value, long address) {
        HostMemory.ALL.set(ValueLayout.JAVA_SHORT, address, value == value ? BFloat16.fromFloat(value) : STORED_NAN);
    }

    static float loadFloat(long address) {
        return HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address);
    }

    static void storeFloat(float value, long address) {
        HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, address, value);
    }

    static double loadDouble(long address) {
        return HostMemory.ALL.get(ValueLayout.JAVA_DOUBLE, address);
    }

    static void storeDouble(double value, long address) {
        HostMemory.ALL.set(ValueLayout.JAVA_DOUBLE, address, value);
    }
}
