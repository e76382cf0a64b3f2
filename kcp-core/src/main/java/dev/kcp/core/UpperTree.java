package dev.kcp.core;

import dev.kcp.conv.RowOps;
import dev.kcp.conv.tree.NodeKey;
import dev.kcp.conv.tree.NodeStack;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The additions that make the tree's root of all ranks' nodes, by row: one rank's nodes after another's, each rank's in
 * token order. The same for every slice of channels.
 */
final class UpperTree implements AutoCloseable {
    private record Row(NodeKey key, int row) {}

    private final int[] begin;
    private final int roots;
    private final int root;
    private final RowOps.Table additions;

    /** @param nodes of each rank */
    UpperTree(long packedTokens, List<List<NodeKey>> nodes, RowOps rowOps) {
        begin = new int[nodes.size() + 1];
        List<Row> rows = new ArrayList<>();
        for (int rank = 0; rank < nodes.size(); rank++) {
            for (NodeKey key : nodes.get(rank)) {
                rows.add(new Row(key, rows.size()));
            }
            begin[rank + 1] = rows.size();
        }
        rows.sort(Comparator.comparingLong(row -> row.key().begin()));
        List<Integer> pairs = new ArrayList<>();
        NodeStack<Integer> upper = new NodeStack<>(packedTokens, (left, right) -> {
            pairs.add(left);
            pairs.add(right);
            return left;
        });
        rows.forEach(row -> upper.pushFromGroup(row.key(), row.row()));
        upper.closeLeaf();
        roots = packedTokens == 0 ? 0 : 1;
        boolean isRoot = roots == 0
                || upper.entries().size() == 1
                        && isRoot(upper.entries().getFirst().key(), packedTokens);
        if (upper.entries().size() != roots || !isRoot) {
            throw new IllegalStateException(
                    "the tree did not close: roots=" + upper.entries().size() + " packedTokens=" + packedTokens);
        }
        root = roots == 0 ? 0 : upper.entries().getFirst().sums();
        additions = rowOps.additions(pairs.stream().mapToInt(Integer::intValue).toArray());
    }

    /** A node may also stand higher than the root: it spans the same tokens. */
    private static boolean isRoot(NodeKey key, long packedTokens) {
        return key.index() == 0 && 1L << key.level() >= NodeStack.leaves(packedTokens);
    }

    /** Nodes of all ranks. */
    int rows() {
        return begin[begin.length - 1];
    }

    /** The first of a rank's nodes; of the number after the last rank, the end. */
    int begin(int rank) {
        return begin[rank];
    }

    /** How many nodes a rank has. */
    int nodes(int rank) {
        return begin[rank + 1] - begin[rank];
    }

    /** 1, or 0 where there are no tokens. */
    int roots() {
        return roots;
    }

    /** The row that holds the root's sums after the additions. */
    int root() {
        return root;
    }

    RowOps.Table additions() {
        return additions;
    }

    @Override
    public void close() {
        additions.close();
    }
}
