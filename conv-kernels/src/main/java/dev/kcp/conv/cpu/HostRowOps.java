package dev.kcp.conv.cpu;

import dev.kcp.conv.RowOps;
import dev.kcp.conv.RowTable;
import dev.kcp.conv.tree.TreeSums;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.List;

/** Row operations on host memory, done when the call returns. */
final class HostRowOps implements RowOps {
    private static final int MOVE = 4;
    private static final int ADDITION = 2;

    private record Rows(int[] words, RowTable facts) implements Table {
        @Override
        public int length() {
            return facts.length();
        }

        @Override
        public void close() {}
    }

    private static Rows own(Table table) {
        if (!(table instanceof Rows rows)) {
            throw new IllegalArgumentException("table of another engine: table=" + table);
        }
        return rows;
    }

    @Override
    public Table moves(int[] quads) {
        return new Rows(quads.clone(), RowTable.moves(quads));
    }

    @Override
    public Table additions(int[] pairs) {
        return new Rows(pairs.clone(), RowTable.additions(pairs));
    }

    @Override
    public void move(Table moves, List<Tensor> sources, List<Tensor> targets, long queue) {
        own(moves).facts().checkMove(sources, targets, Device.CPU);
        int[] words = own(moves).words();
        for (int i = 0; i < words.length; i += MOVE) {
            Tensor target = targets.get(words[i + 2]);
            long to = target.rowAddress(words[i + 3]);
            long bytes = target.columns() * target.dtype().bytes();
            if (words[i] == ZEROS) {
                HostMemory.zero(to, bytes);
            } else {
                HostMemory.copy(sources.get(words[i]).rowAddress(words[i + 1]), to, bytes);
            }
        }
    }

    @Override
    public void add(Table additions, Tensor rows) {
        own(additions).facts().checkAdd(rows, Device.CPU);
        int[] words = own(additions).words();
        long elements = rows.extent(0) == 0 ? 0 : rows.elements() / rows.extent(0);
        long bytes = elements * rows.dtype().bytes();
        for (int i = 0; i < words.length; i += ADDITION) {
            TreeSums.add(
                    rows.dtype(), rows.address() + words[i] * bytes, rows.address() + words[i + 1] * bytes, elements);
        }
    }

    @Override
    public void copyColumns(Tensor from, long fromColumn, Tensor to, long toColumn, long columns) {
        RowTable.checkColumns(from, fromColumn, to, toColumn, columns, Device.CPU);
        long elementBytes = from.dtype().bytes();
        for (long row = 0; row < from.rows() && columns > 0; row++) {
            HostMemory.copy(
                    from.rowAddress(row) + fromColumn * elementBytes,
                    to.rowAddress(row) + toColumn * elementBytes,
                    columns * elementBytes);
        }
    }

    @Override
    public void zero(Tensor tensor) {
        RowTable.checkZero(tensor, Device.CPU);
        if (tensor.elements() > 0) {
            HostMemory.zero(tensor.address(), tensor.elements() * tensor.dtype().bytes());
        }
    }
}
