package dev.kcp.conv;

import dev.kcp.tensor.Tensor;
import java.util.List;

/**
 * Moves and adds rows in one device's memory: what a halo exchange and the upper reduction tree need beside the
 * convolution's own programs. On a GPU all of it is queued and nothing waits.
 */
public interface RowOps {
    /** Stands in place of a source's number where a move writes zeros. */
    int ZEROS = -1;
    /** Most sources of a move. */
    int MOST_SOURCES = 3;
    /** Most targets of a move. */
    int MOST_TARGETS = 2;

    /** Rows by number, where the device reads them. Made once, closed by its owner after the work that uses it. */
    interface Table extends AutoCloseable {
        /** How many rows the table names. */
        int length();

        @Override
        void close();
    }

    /**
     * A table of moves.
     *
     * @param quads source, source's row, target, target's row of each move, one after another; a source may be {@link
     *     #ZEROS}
     */
    Table moves(int[] quads);

    /**
     * A table of additions.
     *
     * @param pairs row that is added to, row that is added, one after another
     */
    Table additions(int[] pairs);

    /**
     * Copies whole rows. No row is both read and written.
     *
     * @param moves from {@link #moves}
     * @param sources up to three tensors with rows of equal bytes, a multiple of 16; null where no move names it
     * @param targets up to two such tensors
     * @param queue where the copies are queued: a stream's handle, or 0 for the engine's own; the host copies at once
     */
    void move(Table moves, List<Tensor> sources, List<Tensor> targets, long queue);

    /**
     * Adds rows in the table's order, each element on its own.
     *
     * @param additions from {@link #additions}
     * @param rows FP32 or FP64, dense; {@code [n, ..]} counts as n rows
     */
    void add(Table additions, Tensor rows);

    /**
     * Copies some columns of all rows of one tensor to columns of another with as many rows of its type.
     *
     * @param columns how many
     */
    void copyColumns(Tensor from, long fromColumn, Tensor to, long toColumn, long columns);

    /** Sets all elements of a dense tensor to zero. */
    void zero(Tensor tensor);
}
