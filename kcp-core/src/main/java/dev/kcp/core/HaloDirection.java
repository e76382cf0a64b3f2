package dev.kcp.core;

import java.util.ArrayList;
import java.util.List;

/**
 * One direction of the halo exchange as one rank makes it: rows of source tensors that others need, and pools of the rows
 * that this rank needs. Forward's source is x (and a caller's history), backward's the head rows' g; all else is the same.
 * A pool holds one sender's rows after another's, in token order, so that each arrives as one run of bytes. Several
 * tensors travel in one exchange, one after another.
 */
final class HaloDirection {
    /** Finds the source's row of a token: at an offset in one of this rank's pieces. */
    interface SourceRows {
        /** The row, or {@code ~row} for one of a caller's history. */
        int of(int piece, int offset);
    }

    /** Rows for one peer: rows of the source, or {@code ~row} of a caller's history. */
    record Outgoing(int peer, int[] sourceRows) {}

    /** Rows from one peer; lookups that rise, or fall by a few tokens, take constant time. */
    static final class Incoming {
        final int peer;
        final int poolBegin;
        private final int[] tokens;
        private int cursor;

        Incoming(int peer, int poolBegin, int[] tokens) {
            this.peer = peer;
            this.poolBegin = poolBegin;
            this.tokens = tokens;
        }

        int rows() {
            return tokens.length;
        }

        int poolRow(int token) {
            while (cursor > 0 && tokens[cursor - 1] >= token) {
                cursor--;
            }
            while (cursor < tokens.length && tokens[cursor] < token) {
                cursor++;
            }
            if (cursor == tokens.length || tokens[cursor] != token) {
                throw new IllegalStateException("the plan brings no such row: token=" + token + " from=" + peer);
            }
            return poolBegin + cursor;
        }
    }

    private final List<Outgoing> outgoing = new ArrayList<>();
    private final List<Incoming> incoming = new ArrayList<>();
    private final Incoming[] incomingFrom;
    private final int poolRows;
    private int[] copySourceRows = {};
    private int copyPoolBegin;

    /**
     * @param own this rank's pieces, rising
     * @param edges of all ranks
     */
    HaloDirection(Pieces pieces, int[] own, List<HaloPlan.Edge> edges, int rank, SourceRows sourceRows) {
        incomingFrom = new Incoming[pieces.ranks()];
        int pool = 0;
        for (HaloPlan.Edge edge : edges) {
            if (edge.to() == rank) {
                Incoming rows = new Incoming(edge.from(), pool, edge.tokens());
                incomingFrom[edge.from()] = rows;
                if (edge.isLocal()) {
                    copyPoolBegin = pool;
                    copySourceRows = rows(pieces, own, edge, sourceRows);
                } else {
                    incoming.add(rows);
                }
                pool += edge.tokens().length;
            } else if (edge.from() == rank) {
                outgoing.add(new Outgoing(edge.to(), rows(pieces, own, edge, sourceRows)));
            }
        }
        poolRows = pool;
    }

    private static int[] rows(Pieces pieces, int[] own, HaloPlan.Edge edge, SourceRows sourceRows) {
        int[] rows = new int[edge.tokens().length];
        for (int i = 0, at = 0; i < rows.length; i++) {
            int token = edge.tokens()[i];
            while (pieces.end[own[at]] <= token) {
                at++;
            }
            rows[i] = sourceRows.of(own[at], token - pieces.begin[own[at]]);
        }
        return rows;
    }

    int poolRows() {
        return poolRows;
    }

    /** Rows that this rank sends. */
    int sentRows() {
        return outgoing.stream().mapToInt(to -> to.sourceRows().length).sum();
    }

    /** The pool's row of a token that comes from a rank; while the plan is built, by one thread. */
    int poolRow(int token, int from) {
        if (incomingFrom[from] == null) {
            throw new IllegalStateException("the plan brings no such row: token=" + token + " from=" + from);
        }
        return incomingFrom[from].poolRow(token);
    }

    List<Outgoing> outgoing() {
        return outgoing;
    }

    /** Runs of the pool that peers fill. */
    List<Incoming> incoming() {
        return incoming;
    }

    /** Rows of the source that this rank needs itself, in the pool from {@link #copyPoolBegin} on. */
    int[] copySourceRows() {
        return copySourceRows;
    }

    int copyPoolBegin() {
        return copyPoolBegin;
    }
}
