package dev.kcp.plan;

import dev.kcp.core.CuSeqlens;
import java.util.Locale;

/**
 * A plan as a picture: the batch over lanes of ranks; where that merges fragments, one cut document enlarged below; then
 * tables that count all of it.
 */
public final class PlanSvg {
    private static final double TEXT = 13;
    private static final double TITLE = 15;
    private static final double MARGIN = 14;
    private static final String INK = "fill=\"#1f2328\"";
    private static final String FADED = "fill=\"#59636e\"";
    private static final String DEFINITIONS = marker("f", PlanChart.FORWARD) + marker("b", PlanChart.BACKWARD);

    private final PlanReport report;
    private final Svg svg = new Svg();

    private PlanSvg(PlanReport report) {
        this.report = report;
    }

    /** The text of an SVG file. */
    public static String write(PlanReport report) {
        return new PlanSvg(report).draw();
    }

    private static String marker(String id, String colour) {
        return """
                  <marker id="%s" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
                orient="auto"><path d="M0 0 8 4 0 8z" fill="%s"/></marker>
                """.formatted(id, colour);
    }

    private String draw() {
        CuSeqlens cuSeqlens = report.partition().cuSeqlens();
        PlanChart all = new PlanChart(report, svg, 0, cuSeqlens.tokens());
        double bottom = all.draw(headline());
        boolean anyArrows = all.drawsArrows() && all.crossings() > 0;
        if (all.crossings() == 0) {
            bottom = note(bottom, "No document is cut: no rows travel.");
        } else if (!all.drawsArrows()) {
            bottom = note(bottom, all.crossings() + " transfers of rows, too many to draw: counted below.");
        }
        if (all.isMerged() && all.crossings() > 0) {
            int document = mostReadableCutDocument();
            PlanChart one = new PlanChart(report, svg, cuSeqlens.begin(document), cuSeqlens.end(document));
            bottom = one.draw(note(bottom + 8, "Document " + document + " alone:") + 12);
            anyArrows |= one.drawsArrows();
        }
        if (anyArrows) {
            bottom = legend(bottom + 26);
        }
        bottom = new PlanSvgTables(report, svg, bottom + 12).draw();
        return svg.finish(bottom + 10, report.headline(), DEFINITIONS);
    }

    /** Of the documents that are cut, the first of those in the fewest fragments. */
    private int mostReadableCutDocument() {
        int[] fragments = new int[report.partition().cuSeqlens().documents()];
        report.placed().forEach(fragment -> fragments[fragment.document()]++);
        int best = -1;
        for (int document = 0; document < fragments.length; document++) {
            if (fragments[document] > 1 && (best < 0 || fragments[document] < fragments[best])) {
                best = document;
            }
        }
        return best;
    }

    /** On as many lines as it needs; returns the y below. */
    private double headline() {
        double y = 24;
        StringBuilder line = new StringBuilder();
        for (String part : report.headline().split("(?<=, )")) {
            if (Svg.textWidth(line + part, TITLE) > Svg.WIDTH - 2 * MARGIN) {
                svg.text(MARGIN, y, TITLE, line.toString().strip(), INK + " font-weight=\"600\"");
                line.setLength(0);
                y += 20;
            }
            line.append(part);
        }
        svg.text(MARGIN, y, TITLE, line.toString().strip(), INK + " font-weight=\"600\"");
        return y + 16;
    }

    private double note(double y, String text) {
        svg.text(MARGIN, y + 26, TEXT, text, FADED);
        return y + 26;
    }

    private double legend(double y) {
        arrow(MARGIN, y, "f", PlanChart.FORWARD, "forward: x rows before the cut");
        y += 22;
        arrow(MARGIN, y, "b", PlanChart.BACKWARD, "backward: g rows after the cut");
        if (report.edges().stream().noneMatch(PlanReport.EdgeTotals::isLocal)) {
            return y;
        }
        svg.circle(MARGIN + 6, y + 17, 3, INK);
        svg.text(44, y + 22, TEXT, "rows that a rank copies to itself", INK);
        return y + 22;
    }

    private void arrow(double x, double y, String marker, String colour, String text) {
        svg.path(
                String.format(Locale.ROOT, "M%.1f %.1fh24", x, y - 4),
                "stroke=\"" + colour + "\" stroke-width=\"1.6\" marker-end=\"url(#" + marker + ")\"");
        svg.text(x + 30, y, TEXT, text, INK);
    }
}
