package dev.kcp.core;

import dev.kcp.conv.ShardTables;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Which rows travel between which ranks, resolved token by token, for all ranks alike. Everything follows from one
 * relation: token t reads token u when both are of one document, u is one to three before t, and they lie in different
 * fragments. Forward, row u goes to the rank of t; backward, g of t goes to the rank of u. A row goes once to each rank
 * that needs it. An edge from a rank to itself is a local copy.
 */
public final class HaloPlan {
    /**
     * Rows that go from one rank to another.
     *
     * @param tokens packed tokens, rising
     */
    public record Edge(int from, int to, int[] tokens) {
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

    public static HaloPlan of(Partition partition) {
        Rows forward = new Rows(partition.ranks());
        Rows backward = new Rows(partition.ranks());
        List<Partition.Piece> pieces = partition.inPackedOrder();
        for (int i = 0; i < pieces.size(); i++) {
            Partition.Piece reader = pieces.get(i);
            int documentBegin = partition.cuSeqlens().begin(reader.document());
            int owner = i;
            int oldest = Math.max(documentBegin, reader.packedBegin() - ShardTables.HISTORY);
            for (int u = reader.packedBegin() - 1; u >= oldest; u--) {
                while (pieces.get(owner).packedBegin() > u) {
                    owner--;
                }
                int ownerRank = pieces.get(owner).rank();
                forward.add(ownerRank, reader.rank(), u);
                int newest = Math.min(reader.packedEnd() - 1, u + ShardTables.HISTORY);
                for (int t = reader.packedBegin(); t <= newest; t++) {
                    backward.add(reader.rank(), ownerRank, t);
                }
            }
        }
        return new HaloPlan(forward.edges(), backward.edges());
    }

    /** Edges of history rows, by sender, then reader. */
    public List<Edge> forward() {
        return forward;
    }

    /** Edges of g rows, by sender, then owner of the rows they complete. */
    public List<Edge> backward() {
        return backward;
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
        private final int ranks;
        private final Map<Long, int[]> tokens = new TreeMap<>();
        private final Map<Long, Integer> counts = new TreeMap<>();

        Rows(int ranks) {
            this.ranks = ranks;
        }

        void add(int from, int to, int token) {
            long key = (long) from * ranks + to;
            int count = counts.merge(key, 1, Integer::sum);
            int[] list = tokens.computeIfAbsent(key, absent -> new int[8]);
            if (count > list.length) {
                list = Arrays.copyOf(list, 2 * list.length);
                tokens.put(key, list);
            }
            list[count - 1] = token;
        }

        List<Edge> edges() {
            List<Edge> edges = new ArrayList<>();
            tokens.forEach((key, list) -> edges.add(new Edge(
                    (int) (key / ranks),
                    (int) (key % ranks),
                    Arrays.stream(list, 0, counts.get(key)).sorted().distinct().toArray())));
            return List.copyOf(edges);
        }
    }
}
