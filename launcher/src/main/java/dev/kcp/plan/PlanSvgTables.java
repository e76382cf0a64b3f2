package dev.kcp.plan;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;

/** The numbers below the picture: totals by rank, edges, and a line of sums. */
final class PlanSvgTables {
    private static final double SIZE = 12;
    private static final double PITCH = 18;
    private static final int MOST_RANKS = 10;
    private static final int MOST_EDGES = 10;
    private static final String INK = "fill=\"#1f2328\"";

    private static final String BOLD = "font-weight=\"600\"";

    private final PlanReport report;
    private final Svg svg;
    private double y;

    PlanSvgTables(PlanReport report, Svg svg, double y) {
        this.report = report;
        this.svg = svg;
        this.y = y;
    }

    /** Returns the y of the last line. */
    double draw() {
        double[] columns = {50, 124, 200, 288, 377, 466};
        row(columns, BOLD, "", "", "", "sends", "sends", "keeps");
        y -= 3;
        row(columns, BOLD, "rank", "tokens", "fragments", "forward", "backward", "history");
        List<PlanReport.RankTotals> ranks = report.ranks();
        Lanes lanes = new Lanes(IntStream.range(0, ranks.size()).toArray(), 0);
        int shown = ranks.size() <= MOST_RANKS ? ranks.size() : MOST_RANKS - 1;
        for (PlanReport.RankTotals rank : ranks.subList(0, shown)) {
            row(
                    columns,
                    "",
                    Integer.toString(rank.rank()),
                    Integer.toString(rank.tokens()),
                    Integer.toString(rank.fragments()),
                    PlanReport.bytes(rank.forwardBytes()),
                    PlanReport.bytes(rank.backwardBytes()),
                    PlanReport.bytes(rank.savedBytes()));
            if (lanes.isRoomy()) {
                svg.rect(14, y - 10, 12, 12, "fill=\"" + lanes.fill(rank.rank()) + "\" stroke=\"#59636e\"");
            }
        }
        if (shown < ranks.size()) {
            line("and " + (ranks.size() - shown) + " more ranks");
        }
        edges();
        y += 6;
        line(String.format(
                Locale.ROOT,
                "imbalance %.3f, %s, %s sent both ways",
                report.imbalance(),
                report.partition().isTreeExact() ? "tree-exact" : "not tree-exact",
                PlanReport.bytes(report.exchangeBytes())));
        return y;
    }

    private void edges() {
        if (report.edges().isEmpty()) {
            return;
        }
        y += 8;
        double[] columns = {96, 286, 466};
        row(columns, BOLD, "from → to", "forward", "backward");
        List<PlanReport.EdgeTotals> largest = new ArrayList<>(report.edges());
        boolean isCut = largest.size() > MOST_EDGES;
        if (isCut) {
            largest.sort(Comparator.comparingInt(edge -> -(edge.forwardRows() + edge.backwardRows())));
        }
        for (PlanReport.EdgeTotals edge : largest.subList(0, isCut ? MOST_EDGES - 1 : largest.size())) {
            row(
                    columns,
                    "",
                    edge.from() + " → " + edge.to(),
                    rows(edge.forwardRows(), edge.forwardBytes()),
                    rows(edge.backwardRows(), edge.backwardBytes()));
        }
        if (isCut) {
            line("and " + (largest.size() - MOST_EDGES + 1) + " more edges, none with more rows");
        }
    }

    private static String rows(int rows, long bytes) {
        return rows == 0 ? "none" : PlanReport.count(rows, "row") + ", " + PlanReport.bytes(bytes);
    }

    private void row(double[] rightEnds, String attributes, String... cells) {
        y += PITCH;
        for (int i = 0; i < cells.length; i++) {
            if (cells[i].isEmpty()) {
                continue;
            }
            svg.text(rightEnds[i], y, SIZE, cells[i], INK + " text-anchor=\"end\" " + attributes);
        }
    }

    private void line(String text) {
        y += PITCH;
        svg.text(14, y, SIZE, text, INK);
    }
}
