package dev.kcp.train;

import dev.kcp.conv.tree.NodeKey;
import dev.kcp.conv.tree.NodeStack;
import dev.kcp.core.Fragment;
import dev.kcp.core.Partition;
import java.util.List;

/**
 * How one rank's rows are multiplied and summed. Tile i is the rows {@code [i * tileRows, min((i + 1) * tileRows, rows))};
 * a program treats each by itself, and adds sums of tiles only inside a node, as the halves
 *
 * <pre>
 * sum(n tiles) = sum(first 2^k tiles) + sum(the others),  2^k the greatest power of two below n
 * </pre>
 *
 * <p>In an exact plan a tile is a run of packed tokens between two multiples of its length, so a token has the same
 * neighbours in the same places whatever rank holds it, and nodes are those of the one tree over the batch: results do not
 * depend on the number of ranks.
 *
 * @param rows local rows S
 * @param tileRows rows of every tile but the last
 * @param nodes this rank's sums, in rising rows, covering all tiles; a node without a tile is a sum of zeros
 */
public record Tiles(int rows, int tileRows, List<Node> nodes) {
    /**
     * A sum over consecutive tiles.
     *
     * @param key the node's place in the batch's tree, or in another plan the rank's share
     */
    public record Node(NodeKey key, int tileBegin, int tileEnd) {
        /** @throws IllegalArgumentException if the tiles fall */
        public Node {
            if (tileBegin < 0 || tileEnd < tileBegin) {
                throw new IllegalArgumentException("falling tiles: begin=" + tileBegin + " end=" + tileEnd);
            }
        }
    }

    /** @throws IllegalArgumentException if there are negative rows, or a tile has none */
    public Tiles {
        if (rows < 0 || tileRows < 1) {
            throw new IllegalArgumentException("no such tiles: rows=" + rows + " tileRows=" + tileRows);
        }
        nodes = List.copyOf(nodes);
        int tile = 0;
        for (Node node : nodes) {
            if (node.tileBegin() != tile) {
                throw new IllegalArgumentException("nodes leave out tiles: node=" + node + " expectedBegin=" + tile);
            }
            tile = node.tileEnd();
        }
        if (tile != (rows + (long) tileRows - 1) / tileRows) {
            throw new IllegalArgumentException(
                    "nodes do not cover the rows: tiles=" + tile + " rows=" + rows + " tileRows=" + tileRows);
        }
    }

    /** Tiles of this rank. */
    public int count() {
        return nodes.isEmpty() ? 0 : nodes.getLast().tileEnd();
    }

    /** First row of a tile. */
    public int rowBegin(int tile) {
        return tile * tileRows;
    }

    /** Row after a tile's last. */
    public int rowEnd(int tile) {
        return (int) Math.min(rows, (tile + 1L) * tileRows);
    }

    /** One tile of all rows, and one sum: the rank's share. */
    static Tiles whole(int rows, int rank) {
        return new Tiles(rows, Math.max(rows, 1), List.of(new Node(new NodeKey(0, 0, rank), 0, Math.min(rows, 1))));
    }

    /** Tiles between packed multiples of {@code tileRows}, which is 64 times a power of two. */
    static Tiles exact(Partition partition, int rank, int tileRows) {
        int tokens = partition.cuSeqlens().tokens();
        int level = Integer.numberOfTrailingZeros(tileRows / NodeStack.LEAF_TOKENS);
        NodeStack<Node> stack =
                new NodeStack<>(tokens, (left, right) -> new Node(left.key(), left.tileBegin(), right.tileEnd()));
        int row = 0;
        int next = -1;
        for (Fragment fragment : partition.fragments(rank)) {
            int token = partition.packedBegin(fragment);
            int end = token + fragment.length();
            if (token < end && row % tileRows != 0 && token != next) {
                throw notAligned(partition, rank, tileRows, next);
            }
            while (token < end) {
                if (row % tileRows == 0) {
                    if (token % tileRows != 0) {
                        throw notAligned(partition, rank, tileRows, token);
                    }
                    NodeKey key = NodeKey.whole(level, token / tileRows);
                    stack.push(key, new Node(key, row / tileRows, row / tileRows + 1));
                }
                int taken = Math.min(end - token, tileRows - row % tileRows);
                token += taken;
                row += taken;
            }
            next = fragment.length() == 0 ? next : end;
        }
        if (row % tileRows != 0 && next != tokens) {
            throw notAligned(partition, rank, tileRows, next);
        }
        List<Node> nodes = stack.entries().stream()
                .map(entry -> new Node(
                        entry.key(), entry.sums().tileBegin(), entry.sums().tileEnd()))
                .toList();
        return new Tiles(row, tileRows, nodes);
    }

    private static IllegalArgumentException notAligned(Partition partition, int rank, int tileRows, int token) {
        return new IllegalArgumentException("a cut does not fall between tiles: partition=" + partition + " rank="
                + rank + " tileRows=" + tileRows + " token=" + token);
    }
}
