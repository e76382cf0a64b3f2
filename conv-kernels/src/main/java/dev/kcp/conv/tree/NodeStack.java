package dev.kcp.conv.tree;

import static dev.kcp.Arguments.present;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BinaryOperator;

/**
 * The one reduction tree of dweight and dbias, walked from left to right. Sums are pushed in token order; two siblings
 * merge as soon as both stand next to each other, and a node without a right sibling becomes its parent. What remains is
 * the list of the largest nodes that can be made of what was pushed, so leaves of a rank, lists of several threads and
 * nodes of several ranks are combined by the same few lines, always in the same additions.
 *
 * <pre>
 * level 2        node(2,0)              E = 300: five leaves, the last of 44 tokens
 *               /         \
 * level 1   (1,0)         (1,1)        (1,2) = leaf 4: no right sibling, no addition
 *           /   \         /   \         |
 * leaves   0     1       2     3        4
 * </pre>
 *
 * @param <T> a node's sums, or {@code Void} where only the keys are wanted
 */
public final class NodeStack<T> {
    /** Tokens of a leaf. */
    public static final int LEAF_TOKENS = 64;

    private static final int MOST_LEVELS = 57;

    /** A node with its sums. */
    public record Entry<T>(NodeKey key, T sums) {}

    private final long leaves;
    private final BinaryOperator<T> add;
    private final List<Entry<T>> entries = new ArrayList<>();
    private NodeKey openLeaf;
    private T openSums;
    /** No node may begin before this token: those that do were pushed. */
    private long end;

    /**
     * An empty stack for one batch.
     *
     * @param tokens tokens of the whole packed batch
     * @param add left + right; may reuse either
     */
    public NodeStack(long tokens, BinaryOperator<T> add) {
        if (tokens < 0) {
            throw new IllegalArgumentException("negative size: tokens=" + tokens);
        }
        this.leaves = leaves(tokens);
        this.add = present("add", add);
    }

    /** Leaves of so many packed tokens. */
    public static long leaves(long tokens) {
        return Math.ceilDiv(tokens, LEAF_TOKENS);
    }

    /** Adds the next node in token order. */
    public void push(NodeKey key, T sums) {
        if (key.begin() < end || key.level() > MOST_LEVELS || key.index() >= nodes(key.level())) {
            throw new IllegalArgumentException("a node outside the tree or out of order: node=" + key + " leaves="
                    + leaves + " pushedUpTo=" + end);
        }
        end = key.begin() + 1;
        if (key.isShare()) {
            entries.add(new Entry<>(key, sums));
            return;
        }
        int level = key.level();
        long index = key.index();
        T merged = sums;
        while (true) {
            if ((index & 1) == 1 && topIs(level, index - 1)) {
                merged = add.apply(entries.removeLast().sums(), merged);
            } else if ((index & 1) == 1 || index == 0 && 1L << level >= leaves || index + 1 < nodes(level)) {
                break;
            }
            level++;
            index >>= 1;
        }
        entries.add(new Entry<>(NodeKey.whole(level, index), merged));
    }

    private boolean topIs(int level, long index) {
        if (entries.isEmpty()) {
            return false;
        }
        NodeKey top = entries.getLast().key();
        return !top.isShare() && top.level() == level && top.index() == index;
    }

    private long nodes(int level) {
        return leaves + (1L << level) - 1 >> level;
    }

    /**
     * As {@link #push} for nodes and shares of all ranks: shares of one leaf, which come one after another, are added in
     * order of their first token and then count as the leaf. {@link #closeLeaf} ends the last one.
     */
    public void pushFromGroup(NodeKey key, T sums) {
        if (key.isShare() && openLeaf != null && openLeaf.index() == key.index()) {
            openSums = add.apply(openSums, sums);
            return;
        }
        closeLeaf();
        if (key.isShare()) {
            openLeaf = key;
            openSums = sums;
        } else {
            push(key, sums);
        }
    }

    /** Ends the open leaf and adds it to its sibling, if that is there. */
    public void closeLeaf() {
        if (openLeaf != null) {
            NodeKey leaf = NodeKey.whole(0, openLeaf.index());
            openLeaf = null;
            push(leaf, openSums);
        }
    }

    /** What stands, in token order. */
    public List<Entry<T>> entries() {
        return entries;
    }
}
