package dev.kcp.conv.tree;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Sums are written as the text of their additions, so that an order is seen and not only a value. */
class NodeStackTest {
    private static NodeStack<String> stack(long tokens) {
        return new NodeStack<>(tokens, (left, right) -> "(" + left + "+" + right + ")");
    }

    private static String ofLeaves(long tokens) {
        NodeStack<String> stack = stack(tokens);
        for (int leaf = 0; leaf < NodeStack.leaves(tokens); leaf++) {
            stack.push(NodeKey.whole(0, leaf), "" + leaf);
        }
        assertThat(stack.entries()).hasSize(1);
        return stack.entries().getFirst().sums();
    }

    /** The contract's definition of a node, written as it stands there. */
    private static String node(int level, long index, long leaves) {
        if (level == 0) {
            return "" + index;
        }
        String left = node(level - 1, 2 * index, leaves);
        boolean rightExists = (2 * index + 1) << level - 1 < leaves;
        return rightExists ? "(" + left + "+" + node(level - 1, 2 * index + 1, leaves) + ")" : left;
    }

    @Test
    void raggedEndsAddNothing() {
        assertThat(ofLeaves(300)).isEqualTo("(((0+1)+(2+3))+4)");
        for (int leaves = 1; leaves < 70; leaves++) {
            int levels = 0;
            while (1 << levels < leaves) {
                levels++;
            }
            assertThat(ofLeaves(leaves * 64L - 13)).isEqualTo(node(levels, 0, leaves));
        }
    }

    @Test
    void anySplitOfTheLeavesMakesTheSameAdditions() {
        Random random = new Random(5);
        for (int trial = 0; trial < 500; trial++) {
            long tokens = 1 + random.nextInt(64 * 40);
            int ranks = 1 + random.nextInt(5);
            List<NodeStack<String>> owned = new ArrayList<>();
            for (int r = 0; r < ranks; r++) {
                owned.add(stack(tokens));
            }
            int owner = 0;
            for (int leaf = 0; leaf < NodeStack.leaves(tokens); leaf++) {
                owner = random.nextInt(3) == 0 ? random.nextInt(ranks) : owner;
                owned.get(owner).push(NodeKey.whole(0, leaf), "" + leaf);
            }
            List<NodeStack.Entry<String>> all = new ArrayList<>();
            owned.forEach(stack -> all.addAll(stack.entries()));
            all.sort(Comparator.comparingLong(entry -> entry.key().begin()));
            NodeStack<String> upper = stack(tokens);
            all.forEach(entry -> upper.pushFromGroup(entry.key(), entry.sums()));
            upper.closeLeaf();
            assertThat(upper.entries()).hasSize(1);
            assertThat(upper.entries().getFirst().sums()).isEqualTo(ofLeaves(tokens));
        }
    }

    @Test
    void sharesOfABrokenLeafAddInOrderOfTheirFirstToken() {
        NodeStack<String> stack = stack(200);
        stack.pushFromGroup(NodeKey.whole(0, 0), "0");
        stack.pushFromGroup(new NodeKey(0, 1, 64), "1a");
        stack.pushFromGroup(new NodeKey(0, 1, 70), "1b");
        stack.pushFromGroup(new NodeKey(0, 1, 99), "1c");
        stack.pushFromGroup(NodeKey.whole(1, 1), "23");
        stack.closeLeaf();
        assertThat(stack.entries().getFirst().sums()).isEqualTo("((0+((1a+1b)+1c))+23)");
    }
}
