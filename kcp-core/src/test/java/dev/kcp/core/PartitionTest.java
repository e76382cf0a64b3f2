package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class PartitionTest {
    private static Fragment fragment(int document, int offset, int length) {
        return new Fragment(document, offset, length);
    }

    @Test
    void contiguousCutsAtFloorOfTheShare() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(4, 0, 7), 3, 1);
        assertThat(partition.fragments(0)).containsExactly(fragment(0, 0, 3));
        assertThat(partition.fragments(1)).containsExactly(fragment(0, 3, 1), fragment(2, 0, 3));
        assertThat(partition.fragments(2)).containsExactly(fragment(2, 3, 4));
    }

    @Test
    void zigzagPairsTheFirstPartWithTheLast() {
        Partition partition = Partition.of(Layout.ZIGZAG, CuSeqlens.ofLengths(8), 2, 1);
        assertThat(partition.fragments(0)).containsExactly(fragment(0, 0, 2), fragment(0, 6, 2));
        assertThat(partition.fragments(1)).containsExactly(fragment(0, 2, 2), fragment(0, 4, 2));
    }

    @Test
    void zigzagPerDocumentCutsEachDocument() {
        Partition partition = Partition.of(Layout.ZIGZAG_PER_DOCUMENT, CuSeqlens.ofLengths(8, 5), 2, 1);
        assertThat(partition.fragments(0))
                .containsExactly(fragment(0, 0, 2), fragment(0, 6, 2), fragment(1, 0, 1), fragment(1, 3, 2));
        assertThat(partition.fragments(1))
                .containsExactly(fragment(0, 2, 2), fragment(0, 4, 2), fragment(1, 1, 1), fragment(1, 2, 1));
    }

    @Test
    void packedCutsRoundDownToTheAlignment() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(200), 2, 64);
        assertThat(partition.tokens(0)).isEqualTo(64);
        assertThat(partition.tokens(1)).isEqualTo(136);
        assertThat(partition.isTreeExact()).isTrue();
    }

    @Test
    void documentCutsStayAmongTheMultiplesThatTheDocumentHolds() {
        CuSeqlens cuSeqlens = CuSeqlens.ofLengths(10, 190, 30, 70);
        Partition partition = Partition.of(Layout.ZIGZAG_PER_DOCUMENT, cuSeqlens, 2, 64);
        assertThat(partition.fragments(0))
                .containsExactly(
                        fragment(0, 0, 10),
                        fragment(1, 0, 54),
                        fragment(1, 118, 72),
                        fragment(2, 0, 30),
                        fragment(3, 0, 26),
                        fragment(3, 26, 44));
        assertThat(partition.fragments(1)).containsExactly(fragment(1, 54, 64));
    }

    @Test
    void alignedLayoutsAreTreeExactWhereDocumentsAreToo() {
        Random random = new Random(4);
        for (int trial = 0; trial < 200; trial++) {
            CuSeqlens cuSeqlens = CuSeqlens.ofLengths(Geometry.lengths(random));
            int ranks = 1 + random.nextInt(6);
            assertThat(Partition.of(Layout.CONTIGUOUS, cuSeqlens, ranks, 64).isTreeExact())
                    .isTrue();
            assertThat(Partition.of(Layout.ZIGZAG, cuSeqlens, ranks, 64).isTreeExact())
                    .isTrue();
        }
    }

    @Test
    void everyTokenOnceOrNoPartition() {
        CuSeqlens cuSeqlens = CuSeqlens.ofLengths(5, 7);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Partition.ofFragments(
                        cuSeqlens, List.of(List.of(fragment(0, 0, 5)), List.of(fragment(1, 0, 6)))))
                .withMessage("a token is owned by no rank: document=1 offset=6");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Partition.ofFragments(
                        cuSeqlens, List.of(List.of(fragment(0, 0, 5), fragment(1, 0, 7)), List.of(fragment(1, 6, 1)))))
                .withMessage("a token is owned twice: document=1 offset=6 secondOwner=1");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Partition.ofFragments(
                        cuSeqlens, List.of(List.of(fragment(0, 0, 5)), List.of(fragment(7, 0, 7)))))
                .withMessageContaining("document=7")
                .withMessageContaining("documents=2");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Partition.of(Layout.ZIGZAG, cuSeqlens, 0, 1))
                .withMessageContaining("ranks=0");
    }

    @Test
    void anyGeometryCoversEveryTokenOnce() {
        Random random = new Random(9);
        for (int trial = 0; trial < 300; trial++) {
            CuSeqlens cuSeqlens = CuSeqlens.ofLengths(Geometry.lengths(random));
            Partition partition = Geometry.partition(random, cuSeqlens, 1 + random.nextInt(9));
            int[] owners = new int[cuSeqlens.tokens()];
            for (int rank = 0; rank < partition.ranks(); rank++) {
                int row = 0;
                for (Fragment fragment : partition.fragments(rank)) {
                    for (int i = 0; i < fragment.length(); i++, row++) {
                        int token = partition.packedBegin(fragment) + i;
                        owners[token]++;
                        assertThat(partition.placeOf(token).row()).isEqualTo(row);
                        assertThat(partition.placeOf(token).rank()).isEqualTo(rank);
                    }
                }
                assertThat(row).isEqualTo(partition.tokens(rank));
            }
            assertThat(java.util.Arrays.stream(owners).allMatch(count -> count == 1))
                    .isTrue();
        }
    }

    @Test
    void digestsTellPartitionsApart() {
        CuSeqlens cuSeqlens = CuSeqlens.ofLengths(5, 7);
        long digest = Partition.of(Layout.CONTIGUOUS, cuSeqlens, 2, 1).digest();
        assertThat(Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(5, 7), 2, 1)
                        .digest())
                .isEqualTo(digest);
        assertThat(Partition.of(Layout.ZIGZAG, cuSeqlens, 2, 1).digest()).isNotEqualTo(digest);
        assertThat(Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(6, 6), 2, 1)
                        .digest())
                .isNotEqualTo(digest);
    }

    @Test
    void documentsAreCutWhereTheCallerSays() {
        CuSeqlens cuSeqlens = CuSeqlens.ofLengths(8, 5);
        Partition partition =
                Partition.zigzagPerDocument(cuSeqlens, 2, java.util.Arrays.asList(new int[] {1, 1, 6}, null));
        assertThat(partition.fragments(0))
                .containsExactly(fragment(0, 0, 1), fragment(0, 6, 2), fragment(1, 0, 1), fragment(1, 3, 2));
        assertThat(partition.fragments(1)).containsExactly(fragment(0, 1, 5), fragment(1, 1, 1), fragment(1, 2, 1));
        for (int[] wrong : new int[][] {{1, 2}, {3, 2, 4}, {0, 0, 9}, {-1, 0, 0}}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Partition.zigzagPerDocument(cuSeqlens, 2, java.util.Arrays.asList(wrong, null)))
                    .withMessageContaining("document=0");
        }
        assertThatIllegalArgumentException()
                .isThrownBy(() -> Partition.zigzagPerDocument(cuSeqlens, 2, List.of()))
                .withMessageContaining("cutPoints=0 documents=2");
    }

    @Test
    void partitionsThatSayTheSameAreEqual() {
        CuSeqlens cuSeqlens = CuSeqlens.ofLengths(8, 5);
        Partition rule = Partition.of(Layout.CONTIGUOUS, cuSeqlens, 2, 1);
        Partition listed = Partition.ofFragments(CuSeqlens.of(0, 8, 13), List.of(rule.fragments(0), rule.fragments(1)));
        assertThat(listed).isEqualTo(rule).hasSameHashCodeAs(rule);
        assertThat(listed.digest()).isEqualTo(rule.digest());
        assertThat(Partition.of(Layout.ZIGZAG, cuSeqlens, 2, 1)).isNotEqualTo(rule);
        assertThat(rule.toString())
                .contains("ranks=2 documents=2 tokens=13 fragments=3 treeExact=false")
                .hasSizeLessThan(150);
    }

    @Test
    void jsonBringsBackWhatWasWritten() {
        Random random = new Random(12);
        for (int trial = 0; trial < 50; trial++) {
            CuSeqlens cuSeqlens = CuSeqlens.ofLengths(Geometry.lengths(random));
            Partition partition = Geometry.partition(random, cuSeqlens, 1 + random.nextInt(5));
            assertThat(PartitionJson.read(PartitionJson.write(partition))).isEqualTo(partition);
        }
        for (String wrong : List.of(
                "",
                "[]",
                "{\"cu_seqlens\": [0, 2]}",
                "{\"cu_seqlens\": [0, 2], \"fragments\": [[[0, 0, 1]]]}",
                "{\"cu_seqlens\": [0, 2], \"fragments\": [[[0, 0]]]}",
                "{\"cu_seqlens\": [0, 2.5], \"fragments\": [[[0, 0, 2]]]}")) {
            assertThatThrownBy(() -> PartitionJson.read(wrong))
                    .isInstanceOf(KcpException.class)
                    .hasMessageStartingWith("no partition: ");
        }
    }

    @Test
    void jsonOfFragmentsAlone() {
        assertThat(PartitionJson.readFragments("[[[1,0,4],[0,3,2]],[],[[0,5,4]]]"))
                .isEqualTo(List.of(
                        List.of(new Fragment(1, 0, 4), new Fragment(0, 3, 2)),
                        List.of(),
                        List.of(new Fragment(0, 5, 4))));
        for (String wrong : List.of("", "{}", "[[[0, 0]]]", "[[{\"a\": 0, \"b\": 0, \"c\": 2}]]", "[[[0, 0, -1]]]")) {
            assertThatThrownBy(() -> PartitionJson.readFragments(wrong))
                    .isInstanceOf(KcpException.class)
                    .hasMessageStartingWith("no partition: ");
        }
    }
}
