package dev.kcp.core;

import dev.kcp.conv.ShardTables;
import dev.kcp.tensor.DType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Which rows travel between which ranks, resolved token by token, for all ranks alike. Everything follows from one
 * relation: token t reads token u when both are of one document, u is one to three before t, and they lie in different
 * fragments. Forward, row u goes to the rank of t; backward, g of t goes to the rank of u. A row goes once to each rank
 * that needs it. An edge from a rank to itself is a local copy.
 *
 * <p>A caller's history rows are tokens before their document's first, owned by that one's rank; with them, tokens are
 * counted as if the rows were part of the batch.
 */
public final class HaloPlan {
    /**
     * Rows that go from one rank to another.
     *
     * @param tokens packed tokens, rising
     */
    public record Edge(int from, int to, int[] tokens) {
        /** Whether sender and reader are one rank, so that nothing is sent. */
        public boolean isLocal() {
            return from == to;
        }
    }

    private final List<Edge> forward;
    private final List<Edge> backward;

    private HaloPlan(List<Edge> forward, List<Edge> backward) {
        this.forward = forward;
        this.backward = backward;
    }

    /** The rows that travel under a partition, without a caller's history. */
    public static HaloPlan of(Partition partition) {
        return of(partition.pieces());
    }

    static HaloPlan of(Pieces pieces) {
        Rows forward = new Rows(pieces.ranks());
        Rows backward = new Rows(pieces.ranks());
        for (int i = 0; i < pieces.count(); i++) {
            addRowsRead(pieces, i, forward);
            addRowsReading(pieces, i, backward);
        }
        return new HaloPlan(forward.edges(), backward.edges());
    }

    /** The last rows of a piece, to the ranks of the pieces that read them. */
    private static void addRowsRead(Pieces pieces, int owner, Rows rows) {
        int end = pieces.end[owner];
        int newest = Math.min(pieces.documentEnd[owner], end + ShardTables.HISTORY);
        for (int k = owner + 1; k < pieces.count() && pieces.begin[k] < newest; k++) {
            int oldest = Math.max(pieces.begin[owner], pieces.begin[k] - ShardTables.HISTORY);
            rows.add(pieces.rank[owner], pieces.rank[k], oldest, end);
        }
    }

    /** The first rows of a piece, to the ranks of the pieces that they read. */
    private static void addRowsReading(Pieces pieces, int reader, Rows rows) {
        int begin = pieces.begin[reader];
        int oldest = Math.max(pieces.documentBegin[reader], begin - ShardTables.HISTORY);
        for (int k = reader - 1; k >= 0 && pieces.end[k] > oldest; k--) {
            int end = Math.min(pieces.end[reader], pieces.end[k] + ShardTables.HISTORY);
            rows.add(pieces.rank[reader], pieces.rank[k], begin, end);
        }
    }

    /** Edges of history rows, by sender, then reader. */
    public List<Edge> forward() {
        return forward;
    }

    /** Edges of g rows, by sender, then owner of the rows they complete. */
    public List<Edge> backward() {
        return backward;
    }

    /** Bytes of so many rows of C channels as they travel forward: of x, BF16. */
    public static long forwardBytes(long rows, long channels) {
        return rows * channels * DType.BF16.bytes();
    }

    /** Bytes of so many rows of C channels as they travel backward: of g, FP32. */
    public static long backwardBytes(long rows, long channels) {
        return rows * channels * DType.F32.bytes();
    }

    /** Rows that cross between ranks in one direction. */
    static long crossingRows(List<Edge> edges) {
        return edges.stream()
                .filter(edge -> !edge.isLocal())
                .mapToLong(edge -> edge.tokens().length)
                .sum();
    }

    /** Collects rows by edge. */
    private static final class Rows {
        private final int[][][] tokens;
        private final int[][] counts;

        Rows(int ranks) {
            tokens = new int[ranks][][];
            counts = new int[ranks][];
        }

        /**
         * Adds tokens {@code [begin, end)} of one piece, at most three. Pieces come in rising order, and of the runs of one
         * piece the longest comes first: where the edge has any token of the run, it has all.
         */
        void add(int from, int to, int begin, int end) {
            if (tokens[from] == null) {
                tokens[from] = new int[tokens.length][];
                counts[from] = new int[tokens.length];
            }
            int[] list = tokens[from][to];
            int count = counts[from][to];
            if (count > 0 && list[count - 1] >= begin) {
                return;
            }
            if (list == null || count + ShardTables.HISTORY > list.length) {
                list = list == null ? new int[16] : Arrays.copyOf(list, 2 * list.length);
                tokens[from][to] = list;
            }
            for (int token = begin; token < end; token++) {
                list[count++] = token;
            }
            counts[from][to] = count;
        }

        List<Edge> edges() {
            List<Edge> edges = new ArrayList<>();
            for (int from = 0; from < tokens.length; from++) {
                for (int to = 0; tokens[from] != null && to < tokens.length; to++) {
                    if (counts[from][to] > 0) {
                        edges.add(new Edge(from, to, Arrays.copyOf(tokens[from][to], counts[from][to])));
                    }
                }
            }
            return List.copyOf(edges);
        }
    }
}
