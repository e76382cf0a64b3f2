package dev.kcp.train.cpu;

import dev.kcp.tensor.HostMemory;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Eight lanes of FP32 at a native address. The width is fixed and sums have one order, so results depend neither on the
 * machine's registers nor on whether a loop was compiled yet.
 */
final class Lanes {
    static final int COUNT = 8;
    static final long BYTES = COUNT * Float.BYTES;
    static final VectorSpecies<Float> FLOATS = FloatVector.SPECIES_256;

    private static final VectorSpecies<Integer> INTS = IntVector.SPECIES_256;
    private static final VectorSpecies<Short> SHORTS = ShortVector.SPECIES_128;
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();
    private static final int QUIET_NAN = 0x7FC0;

    private Lanes() {}

    static FloatVector load(long address) {
        return FloatVector.fromMemorySegment(FLOATS, HostMemory.ALL, address, ORDER);
    }

    static void store(FloatVector value, long address) {
        value.intoMemorySegment(HostMemory.ALL, address, ORDER);
    }

    static FloatVector loadBf16(long address) {
        ShortVector bits = ShortVector.fromMemorySegment(SHORTS, HostMemory.ALL, address, ORDER);
        IntVector wide = (IntVector) bits.convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0);
        return wide.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    /** Rounds to nearest, ties to even; any NaN becomes the quiet NaN. */
    static void storeBf16(FloatVector value, long address) {
        IntVector bits = value.reinterpretAsInts();
        IntVector odd = bits.lanewise(VectorOperators.LSHR, 16).and(1);
        IntVector rounded = bits.add(odd).add(0x7FFF).lanewise(VectorOperators.LSHR, 16);
        IntVector result =
                rounded.blend(QUIET_NAN, value.test(VectorOperators.IS_NAN).cast(INTS));
        ((ShortVector) result.convertShape(VectorOperators.I2S, SHORTS, 0))
                .intoMemorySegment(HostMemory.ALL, address, ORDER);
    }

    /** The sum of all lanes in one fixed order, which {@code reduceLanes} does not promise. */
    static float sum(FloatVector v) {
        return ((v.lane(0) + v.lane(4)) + (v.lane(1) + v.lane(5)))
                + ((v.lane(2) + v.lane(6)) + (v.lane(3) + v.lane(7)));
    }

    private static final float LOG2_E = 1.44269504f;
    private static final float LN2_HIGH = 0.693145752f;
    private static final float LN2_LOW = 1.42860677e-6f;
    private static final float LOWEST_EXP = -87;
    // Adding it rounds to an integer and leaves that integer in the low bits.
    private static final float ROUND_TO_INTEGER = 0x1.8p23f;

    /** {@code e^x} for x in [-87, 0] within 2 units in the last place; {@code e^-87}, about 1e-38, below. */
    static FloatVector expOfNegative(FloatVector x) {
        FloatVector clamped = x.max(LOWEST_EXP);
        FloatVector shifted =
                clamped.fma(FloatVector.broadcast(FLOATS, LOG2_E), FloatVector.broadcast(FLOATS, ROUND_TO_INTEGER));
        FloatVector n = shifted.sub(ROUND_TO_INTEGER);
        FloatVector r = n.fma(FloatVector.broadcast(FLOATS, -LN2_HIGH), clamped);
        r = n.fma(FloatVector.broadcast(FLOATS, -LN2_LOW), r);
        FloatVector p = FloatVector.broadcast(FLOATS, 1f / 5040);
        p = p.fma(r, FloatVector.broadcast(FLOATS, 1f / 720));
        p = p.fma(r, FloatVector.broadcast(FLOATS, 1f / 120));
        p = p.fma(r, FloatVector.broadcast(FLOATS, 1f / 24));
        p = p.fma(r, FloatVector.broadcast(FLOATS, 1f / 6));
        p = p.fma(r, FloatVector.broadcast(FLOATS, 0.5f));
        p = p.fma(r, FloatVector.broadcast(FLOATS, 1f));
        p = p.fma(r, FloatVector.broadcast(FLOATS, 1f));
        IntVector scale =
                shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).add(0x3F800000);
        return p.mul(scale.reinterpretAsFloats());
    }
}
