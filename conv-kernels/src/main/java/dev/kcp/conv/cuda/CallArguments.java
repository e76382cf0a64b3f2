package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.cuda.Launcher;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;

/**
 * The argument of every kernel of the convolution, {@code ConvArgs} in conv_common.cuh, filled anew for each launch. Here a
 * tensor becomes an address, so here its alignment is refused, before any launch.
 */
final class CallArguments {
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

    static final int FIELDS = Field.values().length;

    private static final int ALIGNMENT_BYTES = 16;

    private final Launcher block;

    /** @param block borrowed, and launched by others */
    CallArguments(Launcher block) {
        this.block = block;
    }

    /** Forgets the call before, and fills in what every program reads. */
    void begin(CudaShard shard, Operands in) {
        block.clear();
        shard.set(this);
        set(Field.X, in.x().rows() == 0 ? 0 : address("x", in.x()));
        set(Field.X_PITCH, in.x().pitchBytes());
        set(Field.ROWS, in.x().rows());
        set(Field.CHANNELS, in.channels());
        set(Field.WEIGHT, denseAddress("weight", in.weight()));
        set(Field.WEIGHT_IS_BF16, in.weight().dtype() == DType.BF16);
        if (in.bias() != null) {
            set(Field.BIAS, denseAddress("bias", in.bias()));
            set(Field.BIAS_IS_BF16, in.bias().dtype() == DType.BF16);
        }
        if (in.history() != null && in.history().rows() > 0) {
            set(Field.HISTORY, denseAddress("history", in.history()));
        }
        set(Field.SUM_PLANES, in.sumPlanes());
    }

    /** Forgets the call before, for a program that reads finished sums alone. */
    void beginSums(Tensor sums) {
        block.clear();
        set(Field.SUMS, sums.extent(0) == 0 ? 0 : address("sums", sums));
        set(Field.CHANNELS, sums.columns());
        set(Field.SUM_PLANES, sums.extent(1));
    }

    void set(Field field, long value) {
        block.set(field.ordinal(), value);
    }

    private void set(Field field, boolean value) {
        set(field, value ? 1 : 0);
    }

    /** A tensor that a program takes by its address alone. */
    void set(Field field, String name, Tensor tensor) {
        set(field, address(name, tensor));
    }

    /** Rows that a program writes: y or dx. */
    void out(String name, Tensor rows) {
        set(Field.OUT, address(name, rows));
        set(Field.OUT_PITCH, rows.pitchBytes());
    }

    /** A row, written over and over, in the place of rows that nobody asked for. */
    void scrap(long rowAddress) {
        set(Field.OUT, rowAddress);
        set(Field.OUT_PITCH, 0);
    }

    void dy(Tensor dy) {
        set(Field.DY, address("dy", dy));
        set(Field.DY_PITCH, dy.pitchBytes());
    }

    /** A row of zeros, read over and over, in the place of an absent dy. */
    void noDy(long zerosAddress) {
        set(Field.DY, zerosAddress);
        set(Field.DY_PITCH, 0);
    }

    void gradients(Tensor dweight, Tensor dbias) {
        if (dweight != null) {
            set(Field.DWEIGHT, denseAddress("dweight", dweight));
            set(Field.DWEIGHT_IS_BF16, dweight.dtype() == DType.BF16);
        }
        if (dbias != null) {
            set(Field.DBIAS, denseAddress("dbias", dbias));
            set(Field.DBIAS_IS_BF16, dbias.dtype() == DType.BF16);
        }
    }

    private static long denseAddress(String name, Tensor tensor) {
        if (!tensor.isDense()) {
            throw new IllegalArgumentException(name + " must be dense: " + name + "=" + tensor);
        }
        return address(name, tensor);
    }

    static long address(String name, Tensor tensor) {
        long address = tensor.address();
        if (address % ALIGNMENT_BYTES != 0) {
            throw new IllegalArgumentException(name + " must start at a multiple of " + ALIGNMENT_BYTES
                    + " bytes: address=0x" + Long.toHexString(address));
        }
        return address;
    }
}
