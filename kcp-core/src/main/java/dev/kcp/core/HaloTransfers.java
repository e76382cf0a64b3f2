package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.PendingExchange;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.RowOps;
import dev.kcp.core.HaloDirection.Incoming;
import dev.kcp.core.HaloDirection.Outgoing;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongConsumer;

/**
 * One direction's rows on their way, on one device. Rows for one peer that follow one another in the source travel from
 * where they are; others are packed first, and what this rank needs of its own is copied to its pool, both by one table of
 * moves. What arrives goes straight into the pools.
 */
final class HaloTransfers implements AutoCloseable {
    /** Numbers of tensors in the table of moves. */
    private static final int ROWS = 0;

    private static final int HISTORY = 1;
    private static final int POOL = 0;
    private static final int PACKED = 1;

    /**
     * What rows are read from.
     *
     * @param history where rows of a caller's history are, or null where the plan names none
     */
    record Source(Tensor rows, Tensor history) {
        long rowBytes() {
            return rows.columns() * rows.dtype().bytes();
        }
    }

    /** Where one peer's rows are sent from: packed rows, or rows of the source. */
    private record Send(int peer, boolean packed, int begin, int rows) {}

    /** How sources of one kind, dense or pitched, are sent. */
    private record Way(RowOps.Table moves, List<Send> sends, int packedRows) {}

    private final ConvEngine engine;
    private final HaloDirection direction;
    private Way dense;
    private Way pitched;

    HaloTransfers(ConvEngine engine, HaloDirection direction) {
        this.engine = engine;
        this.direction = direction;
        dense = way(true);
    }

    private Way way(boolean denseSource) {
        List<Send> sends = new ArrayList<>();
        List<int[]> moves = new ArrayList<>();
        int[] own = direction.copySourceRows();
        for (int i = 0; i < own.length; i++) {
            moves.add(move(own[i], POOL, direction.copyPoolBegin() + i));
        }
        int packed = 0;
        for (Outgoing edge : direction.outgoing()) {
            int[] rows = edge.sourceRows();
            if (rows.length == 1 && rows[0] >= 0 || denseSource && isOneRun(rows)) {
                sends.add(new Send(edge.peer(), false, rows[0], rows.length));
            } else {
                sends.add(new Send(edge.peer(), true, packed, rows.length));
                for (int row : rows) {
                    moves.add(move(row, PACKED, packed++));
                }
            }
        }
        int[] quads = moves.stream().flatMapToInt(Arrays::stream).toArray();
        return new Way(engine.rowOps().moves(quads), sends, packed);
    }

    private static int[] move(int row, int target, int targetRow) {
        return row >= 0 ? new int[] {ROWS, row, target, targetRow} : new int[] {HISTORY, ~row, target, targetRow};
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
     * @param before work on the queue of the transfers that makes the rows, or null
     */
    PendingExchange start(
            Communicator communicator, Call call, List<Source> sources, List<Tensor> pools, LongConsumer before) {
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        List<Tensor> packs = new ArrayList<>();
        boolean moves = false;
        for (int n = 0; n < sources.size(); n++) {
            Source source = sources.get(n);
            Tensor pool = pools.get(n);
            Way way = wayOf(source);
            Tensor pack = engine.allocate(
                    source.rows().dtype(), way.packedRows(), source.rows().columns());
            packs.add(pack);
            moves |= way.moves().length() > 0;
            for (Send send : way.sends()) {
                Tensor from = send.packed() ? pack : source.rows();
                sends.add(new Segment(send.peer(), from.rowAddress(send.begin()), send.rows() * source.rowBytes()));
            }
            for (Incoming edge : direction.incoming()) {
                receives.add(new Segment(edge.peer, pool.rowAddress(edge.poolBegin), edge.rows() * source.rowBytes()));
            }
        }
        boolean staged = moves;
        LongConsumer staging = before == null && !staged
                ? null
                : queue -> {
                    if (before != null) {
                        before.accept(queue);
                    }
                    for (int n = 0; n < sources.size() && staged; n++) {
                        Source source = sources.get(n);
                        List<Tensor> from = Arrays.asList(source.rows(), source.history());
                        engine.rowOps().move(wayOf(source).moves(), from, List.of(pools.get(n), packs.get(n)), queue);
                    }
                };
        try {
            PendingExchange exchange = communicator.exchange(call, staging, sends, receives);
            return () -> {
                try {
                    exchange.await();
                } finally {
                    packs.forEach(Tensor::close);
                }
            };
        } catch (RuntimeException | Error e) {
            packs.forEach(Tensor::close);
            throw e;
        }
    }

    @Override
    public void close() {
        dense.moves().close();
        if (pitched != null) {
            pitched.moves().close();
        }
    }
}
