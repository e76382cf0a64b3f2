package dev.kcp.conv;

import dev.kcp.conv.ShardTables.Span;
import dev.kcp.conv.tree.NodeKey;
import dev.kcp.conv.tree.NodeStack;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * Which leaves of the reduction tree a shard's tokens lie in, and which sums they make.
 *
 * @param shares the shard's tokens by leaf, in token order
 * @param nodes the sums that they make, in token order: the largest whole nodes, and shares of broken leaves
 */
public record LeafTable(List<Share> shares, List<NodeKey> nodes) {
    /**
     * Local rows {@code [begin, end)} of one fragment inside one leaf.
     *
     * @param fragment the fragment's place in the shard
     */
    public record Run(int fragment, int begin, int end, int packedBegin) {}

    /**
     * The shard's tokens of one leaf, in token order.
     *
     * @param key the leaf, or the share of it where other ranks own the rest
     */
    public record Share(NodeKey key, List<Run> runs) {}

    /**
     * Of a shard with these fragments, which may be another rank's.
     *
     * @param packedTokens tokens of the whole batch
     */
    public static LeafTable of(long packedTokens, List<Span> spans) {
        List<Share> shares = shares(packedTokens, spans);
        return new LeafTable(shares, nodes(packedTokens, shares));
    }

    private static List<Share> shares(long packedTokens, List<Span> spans) {
        for (Span span : spans) {
            if (span.documentEnd() > packedTokens) {
                throw new IllegalArgumentException("document past the packed batch: documentEnd=" + span.documentEnd()
                        + " packedTokens=" + packedTokens);
            }
        }
        int[] begin = ShardTables.begins(spans);
        List<Run> runs = new ArrayList<>();
        boolean inOrder = true;
        int last = -1;
        for (int f = 0; f < spans.size(); f++) {
            Span span = spans.get(f);
            int packedEnd = span.packedBegin() + span.length();
            for (int p = span.packedBegin(); p < packedEnd; ) {
                int next = (int) Math.min(packedEnd, ((long) p / NodeStack.LEAF_TOKENS + 1) * NodeStack.LEAF_TOKENS);
                int row = begin[f] + p - span.packedBegin();
                runs.add(new Run(f, row, row + next - p, p));
                inOrder &= p > last;
                last = p;
                p = next;
            }
        }
        if (!inOrder) {
            runs.sort(Comparator.comparingInt(Run::packedBegin));
        }
        List<Share> shares = new ArrayList<>();
        for (int i = 0; i < runs.size(); ) {
            long leaf = runs.get(i).packedBegin() / NodeStack.LEAF_TOKENS;
            long leafEnd = Math.min(packedTokens, (leaf + 1) * NodeStack.LEAF_TOKENS);
            long owned = 0;
            int j = i;
            for (; j < runs.size() && runs.get(j).packedBegin() < leafEnd; j++) {
                owned += runs.get(j).end() - runs.get(j).begin();
            }
            boolean whole = owned == leafEnd - leaf * NodeStack.LEAF_TOKENS;
            NodeKey key = new NodeKey(0, leaf, whole ? -1 : runs.get(i).packedBegin());
            shares.add(new Share(key, List.copyOf(runs.subList(i, j))));
            i = j;
        }
        return List.copyOf(shares);
    }

    private static List<NodeKey> nodes(long packedTokens, List<Share> shares) {
        NodeStack<Void> stack = new NodeStack<>(packedTokens, (left, right) -> null);
        shares.forEach(share -> stack.push(share.key(), null));
        return stack.entries().stream().map(NodeStack.Entry::key).toList();
    }
}
