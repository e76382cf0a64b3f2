package dev.kcp.conv.tree;

/**
 * Names one sum of the reduction tree over a packed batch.
 *
 * @param level 0 for a leaf of 64 tokens; a node of level l spans 2^l leaves
 * @param index the node's place in its level
 * @param firstToken first packed token of a share, where only a part of leaf {@code index} is summed; -1 for a whole
 *     node
 */
public record NodeKey(int level, long index, long firstToken) {
    /** @throws IllegalArgumentException if a number is negative, or a share is no leaf's */
    public NodeKey {
        if (level < 0 || index < 0 || firstToken < -1 || firstToken >= 0 && level != 0) {
            throw new IllegalArgumentException(
                    "not a node: level=" + level + " index=" + index + " firstToken=" + firstToken);
        }
    }

    /** A node of the tree that lies wholly on one rank. */
    public static NodeKey whole(int level, long index) {
        return new NodeKey(level, index, -1);
    }

    /** True where only one rank's tokens of a leaf are summed. */
    public boolean isShare() {
        return firstToken >= 0;
    }

    /** The packed token that sums are ordered by. */
    public long begin() {
        return isShare() ? firstToken : (index << level) * NodeStack.LEAF_TOKENS;
    }
}
