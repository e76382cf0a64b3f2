package dev.kcp.tensor;

import static dev.kcp.Arguments.present;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * A typed view of memory: rows of contiguous elements, {@code pitchElements} apart. The last dimension is the row; all
 * dimensions before it count rows. A tensor made by {@link #zeros} or {@link #adopt} owns its memory and frees it on {@link #close()};
 * every other tensor borrows, and closing it does nothing.
 */
public final class Tensor implements AutoCloseable {
    private final Memory memory;
    private final boolean owner;
    private final long offsetBytes;
    private final DType dtype;
    private final long[] shape;
    private final long rows;
    private final long pitchElements;

    private Tensor(Memory memory, boolean owner, long offsetBytes, DType dtype, long pitchElements, long... shape) {
        this.memory = present("memory", memory);
        this.owner = owner;
        this.offsetBytes = offsetBytes;
        this.dtype = present("dtype", dtype);
        this.shape = shape;
        this.rows = product(shape, shape.length - 1);
        this.pitchElements = pitchElements;
    }

    /** Host tensor of zeros that owns its memory. */
    public static Tensor zeros(DType dtype, long... shape) {
        long[] copy = checkedShape(shape);
        Memory memory = Memory.allocateHost(bytes(dtype, shape));
        return new Tensor(memory, true, 0, dtype, copy[copy.length - 1], copy);
    }

    /** Dense tensor that takes over the memory: closing the tensor closes it. */
    public static Tensor adopt(Memory memory, DType dtype, long... shape) {
        long[] copy = checkedShape(shape);
        return new Tensor(memory, true, 0, dtype, copy[copy.length - 1], copy).checkedInside();
    }

    /** Dense tensor over memory that somebody else owns, from its first byte. */
    public static Tensor over(Memory memory, DType dtype, long... shape) {
        return over(memory, 0, dtype, shape);
    }

    /** Dense tensor over memory that somebody else owns, from the given byte. */
    public static Tensor over(Memory memory, long offsetBytes, DType dtype, long... shape) {
        long[] copy = checkedShape(shape);
        return new Tensor(memory, false, offsetBytes, dtype, copy[copy.length - 1], copy).checkedInside();
    }

    /** Rows of {@code [rows, columns]} whose starts lie {@code pitchElements} apart, as in a slice of a wider tensor. */
    public static Tensor pitched(
            Memory memory, long offsetBytes, DType dtype, long rows, long columns, long pitchElements) {
        if (pitchElements < columns) {
            throw new IllegalArgumentException("rows overlap: pitchElements=" + pitchElements + " columns=" + columns);
        }
        return new Tensor(memory, false, offsetBytes, dtype, pitchElements, checkedShape(new long[] {rows, columns}))
                .checkedInside();
    }

    private Tensor checkedInside() {
        long lastRow = rows == 0 || columns() == 0 ? 0 : rows - 1;
        long lastBytes = rows == 0 || columns() == 0 ? 0 : columns() * dtype.bytes();
        long room = memory.bytes() - offsetBytes - lastBytes;
        if (offsetBytes < 0 || room < 0 || lastRow > 0 && pitchElements > room / dtype.bytes() / lastRow) {
            throw new IllegalArgumentException("tensor reaches past its memory: shape=" + Arrays.toString(shape)
                    + " dtype=" + dtype + " pitchElements=" + pitchElements + " offsetBytes=" + offsetBytes
                    + " memoryBytes=" + memory.bytes());
        }
        if (lastBytes > 0 && address() % dtype.bytes() != 0) {
            throw new IllegalArgumentException("tensor must start at a multiple of its elements' bytes: dtype=" + dtype
                    + " address=0x" + Long.toHexString(address()));
        }
        return this;
    }

    private static long[] checkedShape(long[] shape) {
        if (present("shape", shape).length == 0 || Arrays.stream(shape).anyMatch(extent -> extent < 0)) {
            throw new IllegalArgumentException("not a shape: shape=" + Arrays.toString(shape));
        }
        // Bytes are counted in 64 bits, of the widest type too.
        if (product(shape, shape.length) > Long.MAX_VALUE / Double.BYTES) {
            throw new IllegalArgumentException("more elements than memory can hold: shape=" + Arrays.toString(shape));
        }
        return shape.clone();
    }

    /** The product of the first extents, or the largest number where it is larger. */
    private static long product(long[] shape, int dimensions) {
        long product = 1;
        for (int i = 0; i < dimensions; i++) {
            product = Math.multiplyHigh(product, shape[i]) != 0 || product * shape[i] < 0
                    ? Long.MAX_VALUE
                    : product * shape[i];
        }
        return product;
    }

    /**
     * Bytes of a dense tensor.
     *
     * @throws IllegalArgumentException if there is no such tensor
     */
    public static long bytes(DType dtype, long... shape) {
        present("dtype", dtype);
        return product(checkedShape(shape), shape.length) * dtype.bytes();
    }

    /** Type of its elements. */
    public DType dtype() {
        return dtype;
    }

    /** Where its memory lies. */
    public Device device() {
        return memory.device();
    }

    /** Number of dimensions; nothing to do with a rank of a group. */
    public int rank() {
        return shape.length;
    }

    /** Length of one dimension. */
    public long extent(int dimension) {
        return shape[dimension];
    }

    /** All extents, outermost first. */
    public long[] shape() {
        return shape.clone();
    }

    /** Elements of one row: the last extent. */
    public long columns() {
        return shape[shape.length - 1];
    }

    /** The product of all extents but the last. */
    public long rows() {
        return rows;
    }

    /** The product of all extents. */
    public long elements() {
        return rows() * columns();
    }

    /** Distance between the starts of two rows, in elements. */
    public long pitchElements() {
        return pitchElements;
    }

    /** Distance between the starts of two rows, in bytes. */
    public long pitchBytes() {
        return pitchElements * dtype.bytes();
    }

    /** True where rows follow one another without a gap. */
    public boolean isDense() {
        return pitchElements == columns() || rows() <= 1;
    }

    /** The first element's address; throws {@link IllegalStateException} after the owner closed the memory. */
    public long address() {
        return memory.address() + offsetBytes;
    }

    /** The address of a row, or of the end of all rows. */
    public long rowAddress(long row) {
        if (row < 0 || row > rows) {
            throw new IllegalArgumentException("no such row: row=" + row + " rows=" + rows);
        }
        return address() + row * pitchBytes();
    }

    /**
     * Whether an element of both lies in the same bytes. Slices of the columns of one wider tensor do not overlap, though
     * their rows lie between one another.
     */
    public boolean overlaps(Tensor other) {
        return device().equals(present("other", other).device())
                && ByteRows.of(this).overlaps(ByteRows.of(other));
    }

    /** Rows {@code [begin, end)} as a borrowed {@code [end - begin, columns]} tensor. */
    public Tensor rows(long begin, long end) {
        if (begin < 0 || end < begin || end > rows()) {
            throw new IllegalArgumentException("no such rows: begin=" + begin + " end=" + end + " rows=" + rows());
        }
        return new Tensor(
                memory, false, offsetBytes + begin * pitchBytes(), dtype, pitchElements, end - begin, columns());
    }

    /** Columns {@code [begin, end)} of all rows as a borrowed {@code [rows, end - begin]} tensor. */
    public Tensor columns(long begin, long end) {
        if (begin < 0 || end < begin || end > columns()) {
            throw new IllegalArgumentException(
                    "no such columns: begin=" + begin + " end=" + end + " columns=" + columns());
        }
        return new Tensor(memory, false, offsetBytes + begin * dtype.bytes(), dtype, pitchElements, rows, end - begin);
    }

    /**
     * A dense host tensor's bytes.
     *
     * @throws IllegalStateException if rows have gaps, the memory is not the host's, or was closed
     */
    public MemorySegment segment() {
        if (!isDense()) {
            throw new IllegalStateException("rows have gaps: pitchElements=" + pitchElements + " columns=" + columns());
        }
        return memory.segment().asSlice(offsetBytes, elements() * dtype.bytes());
    }

    @Override
    public void close() {
        if (owner) {
            memory.close();
        }
    }

    @Override
    public String toString() {
        return dtype + Arrays.toString(shape) + (isDense() ? "" : " pitch " + pitchElements) + " on " + device();
    }
}
