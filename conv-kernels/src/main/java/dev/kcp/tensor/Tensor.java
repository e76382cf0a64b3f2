package dev.kcp.tensor;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Objects;

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
    private final long pitchElements;

    private Tensor(Memory memory, boolean owner, long offsetBytes, DType dtype, long pitchElements, long... shape) {
        this.memory = Objects.requireNonNull(memory);
        this.owner = owner;
        this.offsetBytes = offsetBytes;
        this.dtype = Objects.requireNonNull(dtype);
        this.shape = shape;
        this.pitchElements = pitchElements;
    }

    /** Host tensor of zeros that owns its memory. */
    public static Tensor zeros(DType dtype, long... shape) {
        long[] copy = checkedShape(shape);
        Memory memory = Memory.allocateHost(Math.multiplyExact(elements(copy), dtype.bytes()));
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
        long span = rows() == 0 || columns() == 0
                ? 0
                : Math.addExact(Math.multiplyExact(rows() - 1, pitchElements), columns());
        if (offsetBytes < 0 || Math.addExact(offsetBytes, Math.multiplyExact(span, dtype.bytes())) > memory.bytes()) {
            throw new IllegalArgumentException("tensor reaches past its memory: shape=" + Arrays.toString(shape)
                    + " dtype=" + dtype + " offsetBytes=" + offsetBytes + " memoryBytes=" + memory.bytes());
        }
        return this;
    }

    private static long[] checkedShape(long[] shape) {
        if (shape.length == 0 || Arrays.stream(shape).anyMatch(extent -> extent < 0)) {
            throw new IllegalArgumentException("not a shape: shape=" + Arrays.toString(shape));
        }
        return shape.clone();
    }

    private static long elements(long[] shape) {
        return Arrays.stream(shape).reduce(1, Math::multiplyExact);
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
        long rows = 1;
        for (int i = 0; i < shape.length - 1; i++) {
            rows *= shape[i];
        }
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

    /** The address of a row. */
    public long rowAddress(long row) {
        return address() + row * pitchBytes();
    }

    /**
     * Whether an element of both lies in the same bytes. Slices of the columns of one wider tensor do not overlap, though
     * their rows lie between one another.
     */
    public boolean overlaps(Tensor other) {
        return device().equals(other.device()) && ByteRows.of(this).overlaps(ByteRows.of(other));
    }

    /** Rows {@code [begin, end)} as a borrowed {@code [end - begin, columns]} tensor. */
    public Tensor rows(long begin, long end) {
        if (begin < 0 || end < begin || end > rows()) {
            throw new IllegalArgumentException("no such rows: begin=" + begin + " end=" + end + " rows=" + rows());
        }
        return new Tensor(
                memory, false, offsetBytes + begin * pitchBytes(), dtype, pitchElements, end - begin, columns());
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
