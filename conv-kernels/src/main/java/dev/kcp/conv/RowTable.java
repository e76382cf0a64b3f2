package dev.kcp.conv;

import static dev.kcp.Arguments.present;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Tensor;
import java.util.List;

/**
 * What a table of {@link RowOps} asks of the tensors that it is used with: found once, when the table is made, so that a
 * call checks a few numbers however long the table is.
 */
public final class RowTable {
    private static final int CHUNK_BYTES = 16;
    private static final int MOVE = 4;
    private static final int ADDITION = 2;

    private final int length;
    /** Rows that each source and target has at least; for additions the first source alone. */
    private final long[] sourceRows = new long[RowOps.MOST_SOURCES];

    private final long[] targetRows = new long[RowOps.MOST_TARGETS];

    private RowTable(int[] words, int width) {
        if (present("rows", words).length % width != 0) {
            throw new IllegalArgumentException(
                    "a table of " + width + " numbers each: numbers=" + words.length + " width=" + width);
        }
        length = words.length / width;
    }

    /** As {@link RowOps#moves}. */
    public static RowTable moves(int[] quads) {
        RowTable table = new RowTable(quads, MOVE);
        for (int i = 0; i < quads.length; i += MOVE) {
            if (quads[i] != RowOps.ZEROS) {
                name(table.sourceRows, "source", quads[i], quads[i + 1]);
            }
            name(table.targetRows, "target", quads[i + 2], quads[i + 3]);
        }
        return table;
    }

    /** As {@link RowOps#additions}. */
    public static RowTable additions(int[] pairs) {
        RowTable table = new RowTable(pairs, ADDITION);
        for (int row : pairs) {
            name(table.sourceRows, "rows", 0, row);
        }
        return table;
    }

    private static void name(long[] rows, String what, int tensor, int row) {
        if (tensor < 0 || tensor >= rows.length || row < 0) {
            throw new IllegalArgumentException("no such row: " + what + "=" + tensor + " row=" + row);
        }
        rows[tensor] = Math.max(rows[tensor], row + 1L);
    }

    /** How many moves or additions. */
    public int length() {
        return length;
    }

    /**
     * Refuses tensors that the moves would reach past, or that differ in the bytes of their rows.
     *
     * @return bytes of a row
     */
    public long checkMove(List<Tensor> sources, List<Tensor> targets, Device device) {
        long rowBytes = check("target", targets, targetRows, device, -1);
        rowBytes = check("source", sources, sourceRows, device, rowBytes);
        for (int t = 0; t < targets.size(); t++) {
            for (int s = 0; s < sources.size(); s++) {
                if (targetRows[t] > 0 && sourceRows[s] > 0) {
                    ConvChecks.apart("target", targets.get(t), "source", sources.get(s));
                }
            }
        }
        return rowBytes;
    }

    private static long check(String what, List<Tensor> tensors, long[] wanted, Device device, long firstBytes) {
        if (present(what + "s", tensors).size() > wanted.length) {
            throw new IllegalArgumentException(
                    "more " + what + "s than a move has: " + what + "s=" + tensors.size() + " most=" + wanted.length);
        }
        long rowBytes = firstBytes;
        for (int i = 0; i < wanted.length; i++) {
            if (wanted[i] == 0) {
                continue;
            }
            String name = what + " " + i;
            Tensor tensor = i < tensors.size() ? tensors.get(i) : null;
            ConvChecks.onDevice(name, tensor, device);
            long bytes = tensor.columns() * tensor.dtype().bytes();
            if (tensor.rows() < wanted[i]) {
                throw new IllegalArgumentException(name + " lacks rows: " + name + "=" + tensor + " rows=" + wanted[i]);
            }
            if (rowBytes >= 0 && bytes != rowBytes
                    || bytes % CHUNK_BYTES != 0
                    || tensor.rows() > 1 && tensor.pitchBytes() % CHUNK_BYTES != 0
                    || tensor.address() % CHUNK_BYTES != 0) {
                throw new IllegalArgumentException(
                        name + " must have rows of as many bytes as the others, at multiples of "
                                + CHUNK_BYTES + " bytes: rowBytes=" + bytes + " others=" + rowBytes + " pitchBytes="
                                + tensor.pitchBytes() + " address=0x" + Long.toHexString(tensor.address()));
            }
            rowBytes = bytes;
        }
        return rowBytes;
    }

    /** Refuses a tensor that the additions would reach past. */
    public void checkAdd(Tensor rows, Device device) {
        ConvChecks.onDevice("rows", rows, device);
        if (rows.dtype() != DType.F32 && rows.dtype() != DType.F64) {
            throw new IllegalArgumentException("rows must be FP32 or FP64: dtype=" + rows.dtype());
        }
        if (!rows.isDense() || rows.extent(0) < sourceRows[0]) {
            throw new IllegalArgumentException(
                    "rows must be dense, and all that the table names: rows=" + rows + " wanted=" + sourceRows[0]);
        }
    }

    /** Refuses columns that one of the tensors does not have, or that share bytes. */
    public static void checkColumns(
            Tensor from, long fromColumn, Tensor to, long toColumn, long columns, Device device) {
        ConvChecks.onDevice("from", from, device);
        ConvChecks.onDevice("to", to, device);
        if (from.dtype() != to.dtype()
                || from.rows() != to.rows()
                || columns < 0
                || columns > Math.min(from.columns(), to.columns())) {
            throw new IllegalArgumentException("tensors of other rows or types, or without so many columns: from="
                    + from + " to=" + to + " columns=" + columns);
        }
        Tensor source = from.columns(fromColumn, fromColumn + columns);
        ConvChecks.apart("to", to.columns(toColumn, toColumn + columns), "from", source);
    }

    /** Refuses a tensor with gaps between its rows. */
    public static void checkZero(Tensor tensor, Device device) {
        ConvChecks.onDevice("tensor", tensor, device);
        if (!tensor.isDense()) {
            throw new IllegalArgumentException("tensor must be dense: tensor=" + tensor);
        }
    }
}
