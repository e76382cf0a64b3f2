package dev.kcp.tensor;

import static dev.kcp.Arguments.present;

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
    /** @throws IllegalArgumentException if an element lies outside the memory, or the host cannot read it there */
    public StridedView {
        present("memory", memory);
        present("dtype", dtype);
        if (memory.device().kind() != Device.Kind.CPU) {
            throw new IllegalArgumentException("view of memory that the host cannot read: device=" + memory.device());
        }
        if (rows < 0
                || columns < 0
                || rows > 0
                        && columns > 0
                        && !isInside(memory, offsetBytes, dtype, rows - 1, columns - 1, rowStride, columnStride)) {
            throw new IllegalArgumentException("view reaches past its memory: rows=" + rows + " columns=" + columns
                    + " rowStride=" + rowStride + " columnStride=" + columnStride + " offsetBytes=" + offsetBytes
                    + " memoryBytes=" + memory.bytes());
        }
        if (rows > 0 && columns > 0 && (memory.address() + offsetBytes) % dtype.bytes() != 0) {
            throw new IllegalArgumentException("view must start at a multiple of its elements' bytes: dtype=" + dtype
                    + " address=0x" + Long.toHexString(memory.address() + offsetBytes));
        }
    }

    private static boolean isInside(
            Memory memory, long offset, DType dtype, long lastRow, long lastColumn, long rowStride, long columnStride) {
        try {
            long down = Math.multiplyExact(Math.multiplyExact(rowStride, lastRow), dtype.bytes());
            long across = Math.multiplyExact(Math.multiplyExact(columnStride, lastColumn), dtype.bytes());
            long low = Math.addExact(offset, Math.addExact(Math.min(0, down), Math.min(0, across)));
            long high = Math.addExact(offset, Math.addExact(Math.max(0, down), Math.max(0, across)));
            return low >= 0 && high <= memory.bytes() - dtype.bytes();
        } catch (ArithmeticException e) {
            return false;
        }
    }

    /**
     * A dense BF16 copy, owned by the caller; values are rounded once.
     *
     * @throws IllegalArgumentException if the elements are no floating-point numbers
     */
    public Tensor toBf16() {
        if (dtype == DType.I32) {
            throw new IllegalArgumentException("a gradient is a floating-point number: dtype=" + dtype);
        }
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
            case I32 -> throw new IllegalStateException("refused already: dtype=" + dtype);
        };
    }
}
