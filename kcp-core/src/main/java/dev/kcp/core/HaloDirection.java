package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.PendingExchange;
import dev.kcp.comm.Segment;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.ToIntFunction;

/**
 * One direction of the halo exchange as one rank makes it: rows of a source tensor that others need, and a pool of the rows
 * that this rank needs. Forward's source is x and backward's the head rows' g; all else is the same. The pool holds one
 * sender's rows after another's, in token order, so that each arrives as one run of bytes.
 */
final class HaloDirection {
    private record Outgoing(int peer, int[] sourceRows) {}

    private record Incoming(int peer, int poolBegin, int[] tokens) {}

    private final List<Outgoing> outgoing = new ArrayList<>();
    private final List<Incoming> incoming = new ArrayList<>();
    private final int poolRows;
    private int[] copySourceRows = {};
    private int copyPoolBegin;

    /**
     * @param edges of all ranks
     * @param sourceRow the source tensor's row of a token at a place of this rank
     */
    HaloDirection(Partition partition, List<HaloPlan.Edge> edges, int rank, ToIntFunction<Partition.Place> sourceRow) {
        int pool = 0;
        for (HaloPlan.Edge edge : edges) {
            if (edge.to() == rank) {
                incoming.add(new Incoming(edge.from(), pool, edge.tokens()));
                if (edge.isLocal()) {
                    copyPoolBegin = pool;
                    copySourceRows = rows(partition, edge, sourceRow);
                }
                pool += edge.tokens().length;
            } else if (edge.from() == rank) {
                outgoing.add(new Outgoing(edge.to(), rows(partition, edge, sourceRow)));
            }
        }
        poolRows = pool;
    }

    private static int[] rows(Partition partition, HaloPlan.Edge edge, ToIntFunction<Partition.Place> sourceRow) {
        return Arrays.stream(edge.tokens())
                .map(token -> sourceRow.applyAsInt(partition.placeOf(token)))
                .toArray();
    }

    int poolRows() {
        return poolRows;
    }

    /** Rows that this rank sends. */
    int sentRows() {
        return outgoing.stream().mapToInt(to -> to.sourceRows().length).sum();
    }

    /** The pool's row of a token that comes from a rank. */
    int poolRow(int token, int from) {
        for (Incoming edge : incoming) {
            if (edge.peer() == from) {
                int at = Arrays.binarySearch(edge.tokens(), token);
                if (at >= 0) {
                    return edge.poolBegin() + at;
                }
            }
        }
        throw new IllegalStateException("the plan brings no such row: token=" + token + " from=" + from);
    }

    /** Copies own rows and starts the exchange of the others'. */
    PendingExchange start(Communicator communicator, Call call, Tensor source, Tensor pool) {
        long rowBytes = source.columns() * source.dtype().bytes();
        for (int i = 0; i < copySourceRows.length; i++) {
            HostMemory.copy(source.rowAddress(copySourceRows[i]), pool.rowAddress(copyPoolBegin + i), rowBytes);
        }
        List<Segment> sends = new ArrayList<>();
        for (Outgoing edge : outgoing) {
            addRuns(sends, edge, source, rowBytes);
        }
        List<Segment> receives = new ArrayList<>();
        for (Incoming edge : incoming) {
            if (edge.peer() != communicator.rank()) {
                receives.add(
                        new Segment(edge.peer(), pool.rowAddress(edge.poolBegin()), edge.tokens().length * rowBytes));
            }
        }
        return communicator.exchange(call, sends, receives);
    }

    /** Neighbouring rows travel as one segment where nothing lies between them. */
    private static void addRuns(List<Segment> sends, Outgoing edge, Tensor source, long rowBytes) {
        int[] rows = edge.sourceRows();
        for (int i = 0; i < rows.length; ) {
            int j = i + 1;
            while (j < rows.length && rows[j] == rows[j - 1] + 1 && source.pitchBytes() == rowBytes) {
                j++;
            }
            sends.add(new Segment(edge.peer(), source.rowAddress(rows[i]), (j - i) * rowBytes));
            i = j;
        }
    }
}
