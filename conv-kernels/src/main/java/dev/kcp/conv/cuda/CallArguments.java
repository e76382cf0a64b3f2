package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.cuda.KernelArguments.Field;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;

/**
 * Tensors as the fields of the argument block. Here a tensor becomes an address, so here its alignment is refused, before
 * any launch.
 */
final class CallArguments implements AutoCloseable {
    private static final int ALIGNMENT_BYTES = 16;

    private final KernelArguments block = new KernelArguments();

    /** Of the block itself. */
    long address() {
        return block.address();
    }

    /** Forgets the call before, and fills in what every program reads. */
    void begin(CudaShard shard, Operands in) {
        block.clear();
        shard.set(block);
        block.set(Field.X, in.x().rows() == 0 ? 0 : address("x", in.x()));
        block.set(Field.X_PITCH, in.x().pitchBytes());
        block.set(Field.ROWS, in.x().rows());
        block.set(Field.CHANNELS, in.channels());
        block.set(Field.WEIGHT, denseAddress("weight", in.weight()));
        block.set(Field.WEIGHT_IS_BF16, in.weight().dtype() == DType.BF16);
        if (in.bias() != null) {
            block.set(Field.BIAS, denseAddress("bias", in.bias()));
            block.set(Field.BIAS_IS_BF16, in.bias().dtype() == DType.BF16);
        }
        if (in.history() != null && in.history().rows() > 0) {
            block.set(Field.HISTORY, denseAddress("history", in.history()));
        }
        block.set(Field.SUM_PLANES, in.sumPlanes());
    }

    /** Forgets the call before, for a program that reads finished sums alone. */
    void beginSums(Tensor sums) {
        block.clear();
        block.set(Field.SUMS, sums.extent(0) == 0 ? 0 : address("sums", sums));
        block.set(Field.CHANNELS, sums.columns());
        block.set(Field.SUM_PLANES, sums.extent(1));
    }

    void set(Field field, long value) {
        block.set(field, value);
    }

    /** A tensor that a program takes by its address alone. */
    void set(Field field, String name, Tensor tensor) {
        block.set(field, address(name, tensor));
    }

    /** Rows that a program writes: y or dx. */
    void out(String name, Tensor rows) {
        block.set(Field.OUT, address(name, rows));
        block.set(Field.OUT_PITCH, rows.pitchBytes());
    }

    /** A row, written over and over, in the place of rows that nobody asked for. */
    void scrap(long rowAddress) {
        block.set(Field.OUT, rowAddress);
        block.set(Field.OUT_PITCH, 0);
    }

    void dy(Tensor dy) {
        block.set(Field.DY, address("dy", dy));
        block.set(Field.DY_PITCH, dy.pitchBytes());
    }

    /** A row of zeros, read over and over, in the place of an absent dy. */
    void noDy(long zerosAddress) {
        block.set(Field.DY, zerosAddress);
        block.set(Field.DY_PITCH, 0);
    }

    void gradients(Tensor dweight, Tensor dbias) {
        if (dweight != null) {
            block.set(Field.DWEIGHT, denseAddress("dweight", dweight));
            block.set(Field.DWEIGHT_IS_BF16, dweight.dtype() == DType.BF16);
        }
        if (dbias != null) {
            block.set(Field.DBIAS, denseAddress("dbias", dbias));
            block.set(Field.DBIAS_IS_BF16, dbias.dtype() == DType.BF16);
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

    @Override
    public void close() {
        block.close();
    }
}
