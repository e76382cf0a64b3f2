package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.LeafTable;
import dev.kcp.conv.LeafTable.Share;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.ShardTables.Span;
import dev.kcp.conv.tree.NodeStack;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The tables that the kernels follow make the additions of the tree, each token once. */
class ShardImageTest {
    /** Terms as text: two sums are equal only if they were made by the same additions. */
    private static String plus(String left, String right) {
        return "(" + left + "+" + right + ")";
    }

    @Test
    void piecesAndRangesMakeTheNodesOfTheShard() {
        for (int seed = 0; seed < 300; seed++) {
            ShardTables tables = tables(new Random(seed));
            NodeStack<String> expected = new NodeStack<>(tables.packedTokens(), ShardImageTest::plus);
            tables.shares().forEach(share -> expected.push(share.key(), name(share)));
            List<String> nodes =
                    expected.entries().stream().map(NodeStack.Entry::sums).toList();
            assertThat(nodesOf(tables)).as("seed %d", seed).isEqualTo(nodes);
        }
    }

    @Test
    void segmentsHoldEveryTokenOnceInItsLeaf() {
        for (int seed = 0; seed < 300; seed++) {
            ShardTables tables = tables(new Random(seed));
            ShardImage image = new ShardImage(tables);
            int[] words = image.words();
            int[] leafOfRow = new int[tables.rows()];
            java.util.Arrays.fill(leafOfRow, -1);
            List<Integer> groups = groups(tables);
            for (int warp = 0; warp < 4 * image.groups(); warp++) {
                int firstLeaf = groups.get(warp / 4) * 8 + warp % 4 * 2;
                for (int s = words[image.segmentBeginAt + warp]; s < words[image.segmentBeginAt + warp + 1]; s++) {
                    int at = image.segmentsAt + 4 * s;
                    for (int row = words[at]; row < words[at + 1]; row++) {
                        assertThat(leafOfRow[row]).isEqualTo(-1);
                        leafOfRow[row] = firstLeaf + (row >= words[at + 3] ? 1 : 0);
                    }
                }
            }
            for (Share share : tables.shares()) {
                for (LeafTable.Run run : share.runs()) {
                    for (int row = run.begin(); row < run.end(); row++) {
                        assertThat(leafOfRow[row]).isEqualTo((int) share.key().index());
                    }
                }
            }
        }
    }

    private static List<Integer> groups(ShardTables tables) {
        return tables.shares().stream()
                .map(share -> (int) (share.key().index() / 8))
                .distinct()
                .toList();
    }

    private static String name(Share share) {
        return String.valueOf(share.key().begin());
    }

    /** What main and reduce would write, row by row. */
    private static List<String> nodesOf(ShardTables tables) {
        ShardImage image = new ShardImage(tables);
        int[] words = image.words();
        String[] nodes = new String[tables.nodeCount()];
        String[] scratch = new String[image.scratchRows()];
        List<Integer> groups = groups(tables);
        for (int g = 0; g < image.groups(); g++) {
            String[] slots = new String[8];
            for (Share share : tables.shares()) {
                if (share.key().index() / 8 == groups.get(g)) {
                    slots[(int) (share.key().index() % 8)] = name(share);
                }
            }
            for (int p = words[image.pieceBeginAt + g]; p < words[image.pieceBeginAt + g + 1]; p++) {
                int at = image.piecesAt + 4 * p;
                List<String> leaves = new ArrayList<>();
                for (int i = 0; i < words[at + 1]; i++) {
                    leaves.add(slots[words[at] + i]);
                }
                (words[at + 3] == 1 ? scratch : nodes)[words[at + 2]] = tree(leaves);
            }
        }
        for (int r = 0; r < image.ranges(); r++) {
            int at = image.rangesAt + 4 * r;
            nodes[words[at]] = tree(List.of(scratch).subList(words[at + 1], words[at + 1] + words[at + 2]));
        }
        return List.of(nodes);
    }

    /** Neighbours in pairs; one without a right sibling is its parent. */
    private static String tree(List<String> level) {
        if (level.size() == 1) {
            return level.getFirst();
        }
        List<String> next = new ArrayList<>();
        for (int i = 0; i < level.size(); i += 2) {
            next.add(i + 1 < level.size() ? plus(level.get(i), level.get(i + 1)) : level.get(i));
        }
        return tree(next);
    }

    /** A rank's fragments of a batch of up to 8,000 tokens, cut at multiples of 64 or anywhere. */
    private static ShardTables tables(Random random) {
        List<Span> spans = new ArrayList<>();
        int tokens = 1 + random.nextInt(8000);
        int alignment = random.nextBoolean() ? 64 : 1;
        for (int at = 0; at < tokens; ) {
            int next = Math.min(tokens, (at / alignment + 1 + random.nextInt(3000 / alignment)) * alignment);
            if (random.nextInt(4) > 0) {
                spans.add(new Span(at, next - at, 0, tokens));
            }
            at = next;
        }
        if (random.nextBoolean()) {
            java.util.Collections.shuffle(spans, random);
        }
        int[] none = new int[3 * spans.size()];
        java.util.Arrays.fill(none, -1);
        return ShardTables.of(tokens, spans, none, none);
    }
}
