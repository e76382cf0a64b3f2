package dev.kcp.plan;

import dev.kcp.core.HaloPlan;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * Neighbouring rows of one edge: {@code [begin, end)} are packed tokens whose rows go from a rank to another, or to a later
 * fragment of the same rank.
 */
record Crossing(int from, int to, int begin, int end) {
    int rows() {
        return end - begin;
    }

    /** All runs of neighbouring tokens of these edges, by token. */
    static List<Crossing> of(List<HaloPlan.Edge> edges) {
        List<Crossing> all = new ArrayList<>();
        for (HaloPlan.Edge edge : edges) {
            int[] tokens = edge.tokens();
            int begin = 0;
            for (int i = 1; i <= tokens.length; i++) {
                if (i == tokens.length || tokens[i] != tokens[i - 1] + 1) {
                    all.add(new Crossing(edge.from(), edge.to(), tokens[begin], tokens[i - 1] + 1));
                    begin = i;
                }
            }
        }
        all.sort(Comparator.comparingInt(Crossing::begin)
                .thenComparingInt(Crossing::from)
                .thenComparingInt(Crossing::to));
        return all;
    }
}
