package dev.kcp.train.cpu;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/** One operand's rows of a tile as the FP32 matrix that a product reads or writes; BF16 rows go through a buffer. */
final class RowTile implements AutoCloseable {
    private Memory buffer = Memory.allocateHost(0);

    /** The rows in FP32; valid until the next call. */
    long read(Tensor tensor, int begin, int end) {
        long address = write(tensor, begin, end);
        if (tensor.dtype() == DType.BF16) {
            Casts.toFloat(tensor.rowAddress(begin), address, (end - begin) * tensor.columns());
        }
        return address;
    }

    /** Where a product writes the rows; {@link #store} brings them to their place. */
    long write(Tensor tensor, int begin, int end) {
        if (tensor.dtype() == DType.F32) {
            return tensor.rowAddress(begin);
        }
        long bytes = (end - begin) * tensor.columns() * Float.BYTES;
        if (bytes > buffer.bytes()) {
            buffer.close();
            buffer = Memory.allocateHost(bytes);
        }
        return buffer.address();
    }

    /** Ends {@link #write}. */
    void store(Tensor tensor, int begin, int end) {
        if (tensor.dtype() == DType.BF16) {
            Casts.toBf16(buffer.address(), tensor.rowAddress(begin), (end - begin) * tensor.columns());
        }
    }

    @Override
    public void close() {
        buffer.close();
    }
}
