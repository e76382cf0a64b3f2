package dev.kcp.conv.cpu;

import dev.kcp.tensor.HostMemory;
import java.nio.ByteOrder;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/** Loads and stores of one vector of channels by absolute address, and BF16 by integer lanes. */
final class Lanes {
    static final VectorSpecies<Float> FLOAT = FloatVector.SPECIES_PREFERRED;
    static final VectorSpecies<Integer> INT = FLOAT.withLanes(int.class);
    static final VectorSpecies<Double> DOUBLE = FLOAT.withLanes(double.class);
    static final VectorSpecies<Short> SHORT =
            VectorSpecies.of(short.class, VectorShape.forBitSize(FLOAT.vectorBitSize() / 2));
    private static final VectorSpecies<Float> HALF_FLOAT =
            VectorSpecies.of(float.class, VectorShape.forBitSize(FLOAT.vectorBitSize() / 2));
    private static final VectorSpecies<Integer> HALF_INT = HALF_FLOAT.withLanes(int.class);
    private static final VectorSpecies<Short> QUARTER_SHORT =
            VectorSpecies.of(short.class, VectorShape.forBitSize(Math.max(64, FLOAT.vectorBitSize() / 4)));
    static final int COUNT = FLOAT.length();

    /** Whether half a vector of BF16 can be loaded without reading past it; not so with 128-bit vectors. */
    static final boolean WIDENS = COUNT >= 8;

    private static final ByteOrder ORDER = ByteOrder.nativeOrder();
    private static final IntVector V_ONE = IntVector.broadcast(INT, 1);
    private static final IntVector V_BELOW_HALF = IntVector.broadcast(INT, 0x7FFF);
    private static final IntVector V_UPPER_HALF = IntVector.broadcast(INT, 0xFFFF0000);

    private Lanes() {}

    /** {@code count} rounded down to whole vectors. */
    static int whole(int count) {
        return count - count % COUNT;
    }

    static FloatVector loadBf16(long address) {
        IntVector bits = (IntVector) ShortVector.fromMemorySegment(SHORT, HostMemory.ALL, address, ORDER)
                .convertShape(VectorOperators.ZERO_EXTEND_S2I, INT, 0);
        return bits.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    /** A NaN is stored as {@link Scalars#STORED_NAN}. */
    static void storeBf16(FloatVector value, long address) {
        IntVector bits = roundedBits(value)
                .lanewise(VectorOperators.LSHR, 16)
                .blend(Scalars.STORED_NAN, value.test(VectorOperators.IS_NAN).cast(INT));
        ((ShortVector) bits.convertShape(VectorOperators.I2S, SHORT, 0))
                .intoMemorySegment(HostMemory.ALL, address, ORDER);
    }

    /** Every lane rounded to BF16, as FP32. */
    static FloatVector roundBf16(FloatVector value) {
        return roundedBits(value).and(V_UPPER_HALF).reinterpretAsFloats();
    }

    /**
     * Bits whose upper halves are the BF16 numbers: to nearest, ties to even. A NaN stays one because its lower half is
     * zero: it came from BF16, from {@link Taps} or from an operation.
     */
    private static IntVector roundedBits(FloatVector value) {
        IntVector bits = value.reinterpretAsInts();
        IntVector odd = bits.lanewise(VectorOperators.LSHR, 16).and(V_ONE);
        return bits.add(V_BELOW_HALF).add(odd);
    }

    static FloatVector loadFloat(long address) {
        return FloatVector.fromMemorySegment(FLOAT, HostMemory.ALL, address, ORDER);
    }

    static void storeFloat(FloatVector value, long address) {
        value.intoMemorySegment(HostMemory.ALL, address, ORDER);
    }

    static DoubleVector loadDouble(long address) {
        return DoubleVector.fromMemorySegment(DOUBLE, HostMemory.ALL, address, ORDER);
    }

    static void storeDouble(DoubleVector value, long address) {
        value.intoMemorySegment(HostMemory.ALL, address, ORDER);
    }

    /** {@link #DOUBLE} lanes of FP32 at an address. */
    static DoubleVector widenFloat(long address) {
        return (DoubleVector) FloatVector.fromMemorySegment(HALF_FLOAT, HostMemory.ALL, address, ORDER)
                .convertShape(VectorOperators.F2D, DOUBLE, 0);
    }

    /** {@link #DOUBLE} lanes of BF16 at an address: the upper bits of FP32, which conversion to FP64 keeps. */
    static DoubleVector widenBf16(long address) {
        return (DoubleVector) ((IntVector) ShortVector.fromMemorySegment(QUARTER_SHORT, HostMemory.ALL, address, ORDER)
                        .convertShape(VectorOperators.ZERO_EXTEND_S2I, HALF_INT, 0))
                .lanewise(VectorOperators.LSHL, 16)
                .reinterpretAsFloats()
                .convertShape(VectorOperators.F2D, DOUBLE, 0);
    }
}
