package dev.kcp.train;

import dev.kcp.conv.tree.NodeKey;
import dev.kcp.conv.tree.NodeStack;
import dev.kcp.core.Partition;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The tiles of all ranks for one batch, equal on all ranks.
 *
 * @param ranks each rank's tiles
 * @param treeTokens tokens that the tree over all ranks' nodes spans
 */
record TilePlan(List<Tiles> ranks, long treeTokens) {
    TilePlan {
        ranks = List.copyOf(ranks);
    }

    /** The plan of a batch of a run. */
    static TilePlan of(TrainConfig config, Partition partition) {
        return config.sameBits() ? exact(partition, config.align()) : whole(partition);
    }

    /** Each rank's nodes by name, in the order of its sums. */
    List<List<NodeKey>> nodeKeys() {
        return ranks.stream()
                .map(tiles -> tiles.nodes().stream().map(Tiles.Node::key).toList())
                .toList();
    }

    /**
     * The plan whose results have the same bits on any number of ranks.
     *
     * @param align where the partition was cut, a multiple of 64; tiles are as long as they can be between such cuts
     */
    static TilePlan exact(Partition partition, int align) {
        if (align % NodeStack.LEAF_TOKENS != 0) {
            throw new IllegalArgumentException("same bits need cuts at multiples of 64 tokens: align=" + align);
        }
        int tileRows = Integer.lowestOneBit(align);
        return new TilePlan(
                IntStream.range(0, partition.ranks())
                        .mapToObj(rank -> Tiles.exact(partition, rank, tileRows))
                        .toList(),
                partition.cuSeqlens().tokens());
    }

    /** The plan with the largest products: every rank's rows at once, and the ranks' shares added in rank order. */
    static TilePlan whole(Partition partition) {
        return new TilePlan(
                IntStream.range(0, partition.ranks())
                        .mapToObj(rank -> Tiles.whole(partition.tokens(rank), rank))
                        .toList(),
                NodeStack.LEAF_TOKENS);
    }
}
