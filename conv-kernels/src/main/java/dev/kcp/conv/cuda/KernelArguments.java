package dev.kcp.conv.cuda;

import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.lang.foreign.ValueLayout;

/** The argument block of every kernel, {@code ConvArgs} in conv_common.cuh: made once, filled anew for each launch. */
final class KernelArguments implements AutoCloseable {
    /** Fields in the order of {@code ConvArgs}, each of 8 bytes. */
    enum Field {
        X,
        DY,
        WEIGHT,
        BIAS,
        HISTORY,
        OUT,
        HEAD,
        TAIL,
        RECEIVED,
        SCRATCH,
        SUMS,
        DWEIGHT,
        DBIAS,
        BEGIN,
        HISTORY_ROW,
        OWED_ROW,
        HEAD_BEGIN,
        TAIL_BEGIN,
        SEGMENTS,
        SEGMENT_BEGIN,
        PIECES,
        PIECE_BEGIN,
        RANGES,
        X_PITCH,
        DY_PITCH,
        OUT_PITCH,
        ROWS,
        CHANNELS,
        FRAGMENTS,
        WEIGHT_IS_BF16,
        BIAS_IS_BF16,
        DWEIGHT_IS_BF16,
        DBIAS_IS_BF16,
        SUM_PLANES
    }

    static final long BYTES = (long) Field.values().length * Long.BYTES;

    private final Memory block = Memory.allocateHost(BYTES);
    private final long address = block.address();

    long address() {
        return address;
    }

    void clear() {
        HostMemory.zero(address, BYTES);
    }

    void set(Field field, long value) {
        HostMemory.ALL.set(ValueLayout.JAVA_LONG, address + (long) field.ordinal() * Long.BYTES, value);
    }

    void set(Field field, boolean value) {
        set(field, value ? 1 : 0);
    }

    @Override
    public void close() {
        block.close();
    }
}
