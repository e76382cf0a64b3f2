package dev.kcp.tensor;

import java.lang.foreign.ValueLayout;

/**
 * A {@code [rows, columns]} view with any strides, as autograd engines hand out gradients: transposed, expanded (stride
 * 0), sliced, or of another type. Host memory.
 *
 * @param memory borrowed
 * @param offsetBytes first element
 * @param rowStride distance of two rows, in elements, possibly 0 or negative
 * @param columnStride distance of two columns, in elements, possibly 0 or negative
 */
public record StridedView(
        Memory memory, long offsetBytes, DType dtype, long rows, long columns, long rowStride, long columnStride) {
    /** @throws IllegalArgumentException if an element lies outside the memory */
    public StridedView {
        long last = Math.max(0, rows - 1);
        long lastColumn = Math.max(0, columns - 1);
        long low = Math.min(0, rowStride * last) + Math.min(0, columnStride * lastColumn);
        long high = Math.max(0, rowStride * last) + Math.max(0, columnStride * lastColumn) + 1;
        boolean empty = rows == 0 || columns == 0;
        if (rows < 0
                || columns < 0
                || !empty
                        && (offsetBytes + low * dtype.bytes() < 0
                                || offsetBytes + high * dtype.bytes() > memory.bytes())) {
            throw new IllegalArgumentException("view reaches past its memory: rows=" + rows + " columns=" + columns
                    + " rowStride=" + rowStride + " columnStride=" + columnStride + " offsetBytes=" + offsetBytes
                    + " memoryBytes=" + memory.bytes());
        }
    }

    /** A dense BF16 copy, owned by the caller; values are rounded once. */
    public Tensor toBf16() {
        Tensor dense = Tensor.zeros(DType.BF16, rows, columns);
        long base = memory.address() + offsetBytes;
        for (long r = 0; r < rows; r++) {
            for (long c = 0; c < columns; c++) {
                long from = base + (r * rowStride + c * columnStride) * dtype.bytes();
                HostMemory.ALL.set(ValueLayout.JAVA_SHORT, dense.rowAddress(r) + c * Short.BYTES, bf16(from));
            }
        }
        return dense;
    }

    private short bf16(long address) {
        return switch (dtype) {
            case BF16 -> HostMemory.ALL.get(ValueLayout.JAVA_SHORT, address);
            case F32 -> BFloat16.fromFloat(HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address));
            case F64 -> BFloat16.fromDouble(HostMemory.ALL.get(ValueLayout.JAVA_DOUBLE, address));
            case I32 -> throw new IllegalArgumentException("a gradient is a floating-point number: dtype=" + dtype);
        };
    }
}
