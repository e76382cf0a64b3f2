package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.PendingExchange;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.RowOps;
import dev.kcp.core.HaloDirection.Incoming;
import dev.kcp.core.HaloDirection.Outgoing;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongConsumer;

/**
 * One direction's rows on their way, on one device. Rows for one peer that follow one another in the source travel from
 * where they are; others are packed first. What arrives goes straight into the pools; what this rank needs of its own is
 * copied there behind the transfers.
 */
final class HaloTransfers implements AutoCloseable {
    /** Numbers of sources in the tables of moves; each table has one target. */
    private static final int ROWS = 0;

    private static final int HISTORY = 1;

    /**
     * What rows are read from.
     *
     * @param history where rows of a caller's history are, or null where the plan names none
     */
    record Source(Tensor rows, Tensor history) {
        long rowBytes() {
            return rows.columns() * rows.dtype().bytes();
        }

        List<Tensor> tensors() {
            return Arrays.asList(rows, history);
        }
    }

    /** Where one peer's rows are sent from: packed rows, or rows of the source. */
    private record Send(int peer, boolean packed, int begin, int rows) {}

    /** How sources of one kind, dense or pitched, are sent. */
    private record Way(RowOps.Table packing, List<Send> sends, int packedRows) {}

    private final ConvEngine engine;
    private final HaloDirection direction;
    private final RowOps.Table ownRows;
    private final Way dense;
    private Way pitched;

    HaloTransfers(ConvEngine engine, HaloDirection direction) {
        this.engine = engine;
        this.direction = direction;
        List<int[]> moves = new ArrayList<>();
        int[] own = direction.copySourceRows();
        for (int i = 0; i < own.length; i++) {
            moves.add(move(own[i], direction.copyPoolBegin() + i));
        }
        ownRows = table(moves);
        dense = way(true);
    }

    private RowOps.Table table(List<int[]> moves) {
        return engine.rowOps().moves(moves.stream().flatMapToInt(Arrays::stream).toArray());
    }

    private Way way(boolean denseSource) {
        List<Send> sends = new ArrayList<>();
        List<int[]> moves = new ArrayList<>();
        int packed = 0;
        for (Outgoing edge : direction.outgoing()) {
            int[] rows = edge.sourceRows();
            if (rows.length == 1 && rows[0] >= 0 || denseSource && isOneRun(rows)) {
                sends.add(new Send(edge.peer(), false, rows[0], rows.length));
            } else {
                sends.add(new Send(edge.peer(), true, packed, rows.length));
                for (int row : rows) {
                    moves.add(move(row, packed++));
                }
            }
        }
        return new Way(table(moves), sends, packed);
    }

    private static int[] move(int row, int targetRow) {
        return row >= 0 ? new int[] {ROWS, row, 0, targetRow} : new int[] {HISTORY, ~row, 0, targetRow};
    }

    private static boolean isOneRun(int[] rows) {
        for (int i = 0; i < rows.length; i++) {
            if (rows[i] < 0 || rows[i] != rows[0] + i) {
                return false;
            }
        }
        return true;
    }

    private synchronized Way wayOf(Source source) {
        if (source.rows().isDense()) {
            return dense;
        }
        if (pitched == null) {
            pitched = way(false);
        }
        return pitched;
    }

    /**
     * Starts the exchange of all sources' rows; pools are in the order of their sources.
     *
     * @param behind work that needs the pools, by the queue it goes to, or null for none
     */
    PendingExchange start(
            Communicator communicator, Call call, List<Source> sources, List<Tensor> pools, LongConsumer behind) {
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        List<Tensor> packs = new ArrayList<>();
        try {
            for (int n = 0; n < sources.size(); n++) {
                Source source = sources.get(n);
                Tensor pool = pools.get(n);
                Way way = wayOf(source);
                Tensor pack = engine.allocate(
                        source.rows().dtype(), way.packedRows(), source.rows().columns());
                packs.add(pack);
                engine.rowOps().move(way.packing(), source.tensors(), List.of(pack), 0);
                for (Send send : way.sends()) {
                    Tensor from = send.packed() ? pack : source.rows();
                    sends.add(new Segment(send.peer(), from.rowAddress(send.begin()), send.rows() * source.rowBytes()));
                }
                for (Incoming edge : direction.incoming()) {
                    receives.add(
                            new Segment(edge.peer, pool.rowAddress(edge.poolBegin), edge.rows() * source.rowBytes()));
                }
            }
            // Without a row in the pool nothing waits for one.
            boolean ownRowsOnly = behind == null || direction.poolRows() == 0;
            LongConsumer all = ownRowsOnly && ownRows.length() == 0
                    ? null
                    : queue -> {
                        for (int n = 0; n < sources.size(); n++) {
                            engine.rowOps().move(ownRows, sources.get(n).tensors(), List.of(pools.get(n)), queue);
                        }
                        if (!ownRowsOnly) {
                            behind.accept(queue);
                        }
                    };
            PendingExchange exchange = communicator.exchange(call, all, sends, receives);
            return () -> {
                try {
                    exchange.await();
                } finally {
                    CloseStack.closeAll(packs);
                }
            };
        } catch (RuntimeException | Error e) {
            CloseStack.closeAll(packs);
            throw e;
        }
    }

    @Override
    public void close() {
        CloseStack.closeAll(pitched == null ? null : pitched.packing(), dense.packing(), ownRows);
    }
}
