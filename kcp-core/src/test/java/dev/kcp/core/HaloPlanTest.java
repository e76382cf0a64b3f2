package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HaloPlanTest {
    /** The relation of the plan, pair by pair over all tokens. */
    private static Set<String> oracle(Partition partition, boolean forward) {
        CuSeqlens cuSeqlens = partition.cuSeqlens();
        Set<String> rows = new TreeSet<>();
        for (int t = 0; t < cuSeqlens.tokens(); t++) {
            for (int u = Math.max(0, t - 3); u < t; u++) {
                Partition.Place reader = partition.placeOf(t);
                Partition.Place owner = partition.placeOf(u);
                boolean sameFragment = reader.rank() == owner.rank() && reader.fragment() == owner.fragment();
                if (cuSeqlens.documentOf(t) == cuSeqlens.documentOf(u) && !sameFragment) {
                    rows.add(
                            forward
                                    ? u + ": " + owner.rank() + "->" + reader.rank()
                                    : t + ": " + reader.rank() + "->" + owner.rank());
                }
            }
        }
        return rows;
    }

    private static void assertMatchesOracle(Partition partition) {
        HaloPlan plan = HaloPlan.of(partition);
        assertThat(rows(plan.forward())).as("forward").isEqualTo(oracle(partition, true));
        assertThat(rows(plan.backward())).as("backward").isEqualTo(oracle(partition, false));
    }

    private static Set<String> rows(List<HaloPlan.Edge> edges) {
        Set<String> rows = new TreeSet<>();
        for (HaloPlan.Edge edge : edges) {
            for (int token : edge.tokens()) {
                assertThat(rows.add(token + ": " + edge.from() + "->" + edge.to()))
                        .as("row %d goes once", token)
                        .isTrue();
            }
        }
        return rows;
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void randomGeometryMatchesTheTokenByTokenOracle(long seed) {
        Random random = new Random(seed);
        for (int trial = 0; trial < 100; trial++) {
            CuSeqlens cuSeqlens = CuSeqlens.ofLengths(Geometry.lengths(random));
            assertMatchesOracle(Geometry.partition(random, cuSeqlens, 1 + random.nextInt(9)));
        }
    }

    @Test
    void allDocumentSplitsOfSixTokensAndAllAssignmentsToThreeRanks() {
        for (int tokens = 1; tokens <= 6; tokens++) {
            for (int cuts = 0; cuts < 1 << tokens - 1; cuts++) {
                CuSeqlens cuSeqlens = split(tokens, cuts);
                for (int assignment = 0; assignment < Math.pow(3, tokens); assignment++) {
                    assertMatchesOracle(assigned(cuSeqlens, assignment));
                }
            }
        }
    }

    private static CuSeqlens split(int tokens, int cuts) {
        int[] lengths = new int[Integer.bitCount(cuts) + 1];
        int document = 0;
        for (int t = 0; t < tokens; t++) {
            lengths[document]++;
            document += cuts >> t & 1;
        }
        return CuSeqlens.ofLengths(lengths);
    }

    /** Token t to rank {@code assignment / 3^t mod 3}; neighbours of one rank and document form one fragment. */
    private static Partition assigned(CuSeqlens cuSeqlens, int assignment) {
        List<List<Fragment>> fragments =
                List.of(new java.util.ArrayList<>(), new java.util.ArrayList<>(), new java.util.ArrayList<>());
        int rest = assignment;
        int last = -1;
        for (int t = 0; t < cuSeqlens.tokens(); t++, rest /= 3) {
            int rank = rest % 3;
            int document = cuSeqlens.documentOf(t);
            List<Fragment> list = fragments.get(rank);
            if (rank == last && t > cuSeqlens.begin(document)) {
                Fragment open = list.removeLast();
                list.add(new Fragment(document, open.offset(), open.length() + 1));
            } else {
                list.add(new Fragment(document, t - cuSeqlens.begin(document), 1));
            }
            last = rank;
        }
        return Partition.ofFragments(cuSeqlens, fragments);
    }

    @Test
    void aDocumentOverTwoRanksSendsThreeRowsEachWay() {
        HaloPlan plan = HaloPlan.of(Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(16), 2, 1));
        assertThat(rows(plan.forward())).containsExactly("5: 0->1", "6: 0->1", "7: 0->1");
        assertThat(rows(plan.backward())).containsExactly("10: 1->0", "8: 1->0", "9: 1->0");
        assertThat(HaloPlan.crossingRows(plan.forward())).isEqualTo(3);
    }
}
