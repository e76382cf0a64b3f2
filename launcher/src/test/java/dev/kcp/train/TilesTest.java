package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.conv.tree.NodeKey;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Fragment;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import java.util.List;
import org.junit.jupiter.api.Test;

class TilesTest {
    private static final CuSeqlens TOKENS_300 = CuSeqlens.ofLengths(100, 30, 170);

    @Test
    void oneRankHoldsTheRoot() {
        Tiles tiles = Tiles.exact(Partition.of(Layout.CONTIGUOUS, TOKENS_300, 1, 64), 0, 64);
        assertThat(tiles.nodes()).containsExactly(new Tiles.Node(NodeKey.whole(3, 0), 0, 5));
        assertThat(tiles.count()).isEqualTo(5);
        assertThat(List.of(tiles.rowBegin(4), tiles.rowEnd(4))).containsExactly(256, 300);
    }

    @Test
    void ranksHoldTheLargestNodesBetweenTheirCuts() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, TOKENS_300, 3, 64);
        TilePlan plan = TilePlan.exact(partition, 64);
        assertThat(plan.ranks().get(0).nodes()).containsExactly(new Tiles.Node(NodeKey.whole(0, 0), 0, 1));
        assertThat(plan.ranks().get(1).nodes())
                .containsExactly(new Tiles.Node(NodeKey.whole(0, 1), 0, 1), new Tiles.Node(NodeKey.whole(0, 2), 1, 2));
        assertThat(plan.ranks().get(2).nodes())
                .containsExactly(new Tiles.Node(NodeKey.whole(0, 3), 0, 1), new Tiles.Node(NodeKey.whole(2, 1), 1, 2));
        assertThat(plan.treeTokens()).isEqualTo(300);
    }

    @Test
    void tilesAreAsLongAsTheAlignmentsPowerOfTwo() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, TOKENS_300, 2, 128);
        assertThat(TilePlan.exact(partition, 128).ranks())
                .extracting(Tiles::tileRows)
                .containsOnly(128);
        assertThat(TilePlan.exact(Partition.of(Layout.CONTIGUOUS, TOKENS_300, 2, 192), 192)
                        .ranks())
                .extracting(Tiles::tileRows)
                .containsOnly(64);
    }

    @Test
    void rankWithoutTokensHasNoNodeButAShareOfZeros() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(70), 4, 64);
        assertThat(TilePlan.exact(partition, 64).ranks().get(0).nodes()).isEmpty();
        Tiles share = TilePlan.whole(partition).ranks().get(0);
        assertThat(share.nodes()).containsExactly(new Tiles.Node(new NodeKey(0, 0, 0), 0, 0));
        assertThat(share.count()).isZero();
    }

    @Test
    void cutInsideATileIsRefused() {
        Partition cutAt150 = Partition.of(Layout.CONTIGUOUS, TOKENS_300, 2, 1);
        assertThatThrownBy(() -> TilePlan.exact(cutAt150, 64))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("token=150");
        Partition tileInTwoPieces = Partition.ofFragments(
                CuSeqlens.ofLengths(32, 96), List.of(List.of(new Fragment(1, 0, 96), new Fragment(0, 0, 32))));
        assertThatThrownBy(() -> TilePlan.exact(tileInTwoPieces, 64))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("token=32");
    }

    @Test
    void nodesCoverAllTiles() {
        assertThatThrownBy(() -> new Tiles(100, 64, List.of(new Tiles.Node(NodeKey.whole(0, 0), 0, 1))))
                .hasMessageContaining("tiles=1 rows=100");
        assertThatThrownBy(() -> new Tiles(100, 64, List.of(new Tiles.Node(NodeKey.whole(0, 1), 1, 2))))
                .hasMessageContaining("expectedBegin=0");
    }
}
