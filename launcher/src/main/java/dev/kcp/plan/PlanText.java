package dev.kcp.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** A plan as tables for a terminal: documents, ranks, edges. Long tables are cut unless all of them is asked for. */
public final class PlanText {
    private static final int MOST_LINES = 20;
    private static final int MOST_FRAGMENTS = 6;

    private final PlanReport report;
    private final boolean isFull;
    private final StringBuilder text = new StringBuilder();

    private PlanText(PlanReport report, boolean isFull) {
        this.report = report;
        this.isFull = isFull;
    }

    /**
     * The tables, each line ended.
     *
     * @param isFull every document, rank and edge, however many
     */
    public static String write(PlanReport report, boolean isFull) {
        PlanText text = new PlanText(report, isFull);
        text.line("%s", report.headline());
        text.documents();
        text.ranks();
        text.edges();
        text.line("");
        text.line(
                "tree-exact: %s",
                report.partition().isTreeExact()
                        ? "yes, dweight and dbias have the bits of any other tree-exact partition"
                        : "no, a leaf of 64 tokens is cut: dweight and dbias repeat for this partition only");
        return text.text.toString();
    }

    private void line(String format, Object... values) {
        text.append(String.format(Locale.ROOT, format, values).stripTrailing()).append('\n');
    }

    /** How many of a table's lines to show. */
    private int shown(int lines) {
        return isFull || lines <= MOST_LINES + 1 ? lines : MOST_LINES;
    }

    /** Documents cut alike, one after another, share a line. */
    private void documents() {
        List<List<PlanReport.Placed>> byDocument = new ArrayList<>();
        int documents = report.partition().cuSeqlens().documents();
        for (int document = 0; document < documents; document++) {
            byDocument.add(new ArrayList<>());
        }
        report.placed().forEach(fragment -> byDocument.get(fragment.document()).add(fragment));
        line("");
        line("%-17s %10s  %s", "document", "tokens", "fragments as rank[begin,end)");
        int lines = 0;
        for (int first = 0, next; first < documents; first = next) {
            next = first + 1;
            while (!isFull && next < documents && isCutAlike(byDocument.get(first), byDocument.get(next))) {
                next++;
            }
            if (!isFull && lines++ == MOST_LINES) {
                long cut = byDocument.subList(first, documents).stream()
                        .filter(fragments -> fragments.size() > 1)
                        .count();
                line(
                        "... %d more documents: %d cut, %d whole (--full shows all)",
                        documents - first, cut, documents - first - cut);
                return;
            }
            String name = next == first + 1 ? "" + first : first + " to " + (next - 1);
            line("%-17s %10d  %s", name, report.partition().cuSeqlens().length(first), cuts(byDocument.get(first)));
        }
    }

    private static boolean isCutAlike(List<PlanReport.Placed> some, List<PlanReport.Placed> others) {
        if (some.size() != others.size()) {
            return false;
        }
        for (int i = 0; i < some.size(); i++) {
            PlanReport.Placed one = some.get(i);
            PlanReport.Placed other = others.get(i);
            if (one.rank() != other.rank()
                    || one.offset() != other.offset()
                    || one.end() - one.begin() != other.end() - other.begin()) {
                return false;
            }
        }
        return true;
    }

    private String cuts(List<PlanReport.Placed> fragments) {
        StringBuilder list = new StringBuilder();
        int shown = isFull || fragments.size() <= MOST_FRAGMENTS + 1 ? fragments.size() : MOST_FRAGMENTS;
        for (PlanReport.Placed fragment : fragments.subList(0, shown)) {
            int end = fragment.offset() + fragment.end() - fragment.begin();
            list.append(fragment.rank())
                    .append('[')
                    .append(fragment.offset())
                    .append(',')
                    .append(end)
                    .append(") ");
        }
        if (shown < fragments.size()) {
            PlanReport.Placed last = fragments.getLast();
            list.append("... ")
                    .append(fragments.size() - shown)
                    .append(" more, to ")
                    .append(last.rank())
                    .append("[");
            list.append(last.offset())
                    .append(',')
                    .append(last.offset() + last.end() - last.begin())
                    .append(')');
        }
        return list.toString().strip();
    }

    private void ranks() {
        line("");
        line(
                "%5s %10s %10s %15s %15s %15s %15s",
                "rank", "tokens", "fragments", "sends forward", "sends backward", "keeps history", "reduce sends");
        List<PlanReport.RankTotals> ranks = report.ranks();
        int shown = shown(ranks.size());
        ranks.subList(0, shown).forEach(rank -> rankLine(Integer.toString(rank.rank()), rank));
        if (shown < ranks.size()) {
            line("... %d more ranks (--full shows all)", ranks.size() - shown);
        }
        rankLine(
                "all",
                new PlanReport.RankTotals(
                        -1,
                        report.partition().cuSeqlens().tokens(),
                        ranks.stream()
                                .mapToInt(PlanReport.RankTotals::fragments)
                                .sum(),
                        ranks.stream()
                                .mapToLong(PlanReport.RankTotals::forwardBytes)
                                .sum(),
                        ranks.stream()
                                .mapToLong(PlanReport.RankTotals::backwardBytes)
                                .sum(),
                        ranks.stream()
                                .mapToLong(PlanReport.RankTotals::savedBytes)
                                .sum(),
                        ranks.stream()
                                .mapToLong(PlanReport.RankTotals::treeBytes)
                                .sum()));
        line("imbalance: %.3f (most tokens of a rank over the mean)", report.imbalance());
    }

    private void rankLine(String name, PlanReport.RankTotals rank) {
        line(
                "%5s %10d %10d %15s %15s %15s %15s",
                name,
                rank.tokens(),
                rank.fragments(),
                PlanReport.bytes(rank.forwardBytes()),
                PlanReport.bytes(rank.backwardBytes()),
                PlanReport.bytes(rank.savedBytes()),
                PlanReport.bytes(rank.treeBytes()));
    }

    private void edges() {
        line("");
        if (report.edges().isEmpty()) {
            line("no rows travel: no document is cut");
            return;
        }
        line("%13s %20s %20s", "from -> to", "forward, rows", "backward, rows");
        int shown = shown(report.edges().size());
        for (PlanReport.EdgeTotals edge : report.edges().subList(0, shown)) {
            line(
                    "%5d -> %-4d %20s %20s%s",
                    edge.from(),
                    edge.to(),
                    edge.forwardRows() + ", " + PlanReport.bytes(edge.forwardBytes()),
                    edge.backwardRows() + ", " + PlanReport.bytes(edge.backwardBytes()),
                    edge.isLocal() ? "  (copied on the rank, not sent)" : "");
        }
        if (shown < report.edges().size()) {
            List<PlanReport.EdgeTotals> rest =
                    report.edges().subList(shown, report.edges().size());
            line(
                    "... %d more edges: %d rows forward, %d backward (--full shows all)",
                    rest.size(),
                    rest.stream().mapToLong(PlanReport.EdgeTotals::forwardRows).sum(),
                    rest.stream().mapToLong(PlanReport.EdgeTotals::backwardRows).sum());
        }
    }
}
