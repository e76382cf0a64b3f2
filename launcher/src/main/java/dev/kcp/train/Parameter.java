package dev.kcp.train;

/**
 * One parameter's place in the flat buffers of values, gradients and optimizer state.
 *
 * @param name for example {@code layer0.w1}
 * @param offset first element
 * @param rows 1 for vectors
 * @param columns elements of a row
 * @param decayed whether weight decay pulls it to zero; so for matrices only
 */
public record Parameter(String name, long offset, int rows, int columns, boolean decayed) {
    /** @throws IllegalArgumentException if the offset is negative or a side is empty */
    public Parameter {
        if (offset < 0 || rows < 1 || columns < 1) {
            throw new IllegalArgumentException(
                    "not a parameter: name=" + name + " offset=" + offset + " rows=" + rows + " columns=" + columns);
        }
    }

    /** Rows x columns. */
    public long elements() {
        return (long) rows * columns;
    }
}
