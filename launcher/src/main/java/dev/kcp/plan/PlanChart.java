package dev.kcp.plan;

import dev.kcp.core.CuSeqlens;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;

/**
 * The lanes of a window of the batch. Tokens run from left to right in packed order; every rank has a lane that shows its
 * fragments where they lie, so that rows cross between lanes where a document is cut. Beside a fragment, dashed, are the
 * rows that it receives. What is too small to draw is merged.
 */
final class PlanChart {
    static final String FORWARD = "#0550ae";
    static final String BACKWARD = "#bc4c00";
    private static final double LEFT = 74;
    private static final double RIGHT = 14;
    private static final double TOKENS_WIDTH = Svg.WIDTH - LEFT - RIGHT;
    private static final double LABEL = 13;
    private static final int MOST_ARROWS = 80;
    private static final double CELL_TO_DRAW = 9;
    private static final double HALO_WIDTH = 12;
    private static final double LABEL_ROOM = 16;
    private static final double NARROW_BLOCK = 6;
    private static final String INK = "fill=\"#1f2328\"";

    private final PlanReport report;
    private final CuSeqlens cuSeqlens;
    private final Svg svg;
    private final int begin;
    private final int end;
    private final double tokenWidth;
    private final List<PlanReport.Placed> placed;
    private final List<Crossing> forward;
    private final List<Crossing> backward;
    private final List<Label> labels = new ArrayList<>();
    private boolean merged;

    /** Where a number of rows stands. */
    private record Label(double x, double y) {}

    /**
     * @param begin first packed token of the window; it and the end fall on documents' ends
     * @param end one past the last
     */
    PlanChart(PlanReport report, Svg svg, int begin, int end) {
        this.report = report;
        this.svg = svg;
        this.begin = begin;
        this.end = end;
        cuSeqlens = report.partition().cuSeqlens();
        tokenWidth = TOKENS_WIDTH / Math.max(1, end - begin);
        placed = report.placed().stream()
                .filter(fragment -> fragment.begin() >= begin && fragment.end() <= end)
                .toList();
        forward = inside(Crossing.of(report.halo().forward()));
        backward = inside(Crossing.of(report.halo().backward()));
    }

    private List<Crossing> inside(List<Crossing> all) {
        return all.stream()
                .filter(crossing -> crossing.begin() >= begin && crossing.end() <= end)
                .toList();
    }

    int crossings() {
        return forward.size();
    }

    /** Whether each group of rows has its arrow. */
    boolean drawsArrows() {
        return lanes(0).isRoomy() && forward.size() + backward.size() <= MOST_ARROWS;
    }

    /** Whether fragments were merged. */
    boolean isMerged() {
        return merged;
    }

    /** Draws with the top at y; returns the bottom. */
    double draw(double y) {
        documents(y);
        Lanes lanes = lanes(y + 46);
        fragments(lanes);
        if (drawsArrows()) {
            arrows(lanes, forward, 1);
            arrows(lanes, backward, -1);
        }
        return lanes.bottom();
    }

    private double x(double token) {
        return LEFT + (token - begin) * tokenWidth;
    }

    private void documents(double y) {
        svg.text(14, y + 17, LABEL, "batch", INK);
        int first = begin == end ? 0 : cuSeqlens.documentOf(begin);
        int documents = begin == end ? 0 : cuSeqlens.documentOf(end - 1) + 1 - first;
        List<Blocks.Block> blocks =
                Blocks.of(documents, d -> x(cuSeqlens.begin(first + d)), d -> x(cuSeqlens.end(first + d)));
        for (Blocks.Block block : blocks) {
            if (block.width() == 0) {
                continue;
            }
            String fill = block.count() > 1 ? "#d1d9e0" : (first + block.first()) % 2 == 0 ? "#f6f8fa" : "#e6eaef";
            svg.rect(
                    block.left(),
                    y,
                    block.width(),
                    24,
                    "fill=\"" + fill + "\" stroke=\"#59636e\" stroke-width=\"" + outline(block) + "\"");
            String name = block.count() > 1
                    ? PlanReport.count(block.count(), "document")
                    : "document " + (first + block.first());
            labelIn(block, y + 17, name, block.count() > 1 ? "" + block.count() : "" + (first + block.first()));
        }
    }

    /** Width of a block's outline, which must not hide the colour of a narrow one. */
    private static double outline(Blocks.Block block) {
        return block.width() < NARROW_BLOCK ? 0.3 : 1;
    }

    /** The longer name that fits into a block, if any. */
    private void labelIn(Blocks.Block block, double y, String... names) {
        for (String name : names) {
            if (Svg.textWidth(name, LABEL) <= block.width() - 4) {
                svg.text((block.left() + block.right()) / 2, y, LABEL, name, INK + " text-anchor=\"middle\"");
                return;
            }
        }
    }

    /** All ranks where the window is the batch, else those that own something in it. */
    private Lanes lanes(double top) {
        IntStream ranks = end - begin == cuSeqlens.tokens()
                ? IntStream.range(0, report.ranks().size())
                : placed.stream().mapToInt(PlanReport.Placed::rank).sorted().distinct();
        return new Lanes(ranks.toArray(), top);
    }

    private void fragments(Lanes lanes) {
        List<List<PlanReport.Placed>> byLane = new ArrayList<>();
        for (int lane = 0; lane < lanes.count(); lane++) {
            byLane.add(new ArrayList<>());
        }
        placed.forEach(fragment -> byLane.get(lanes.of(fragment.rank())).add(fragment));
        for (int lane = 0; lane < lanes.count(); lane++) {
            double y = lanes.y(lane);
            svg.text(14, y + lanes.height() / 2 + 4.5, lanes.isRoomy() ? LABEL : 11, lanes.label(lane), INK);
            svg.path(
                    String.format(Locale.ROOT, "M%.1f %.2fH%.1f", LEFT, y + lanes.height() / 2, LEFT + TOKENS_WIDTH),
                    "stroke=\"#d1d9e0\" stroke-width=\"1\"");
            List<PlanReport.Placed> own = byLane.get(lane);
            List<Blocks.Block> blocks = Blocks.of(
                    own.size(), i -> x(own.get(i).begin()), i -> x(own.get(i).end()));
            for (Blocks.Block block : blocks) {
                fragment(lanes, y, own.get(block.first()), block);
            }
        }
    }

    private void fragment(Lanes lanes, double y, PlanReport.Placed first, Blocks.Block block) {
        boolean isMerged = block.count() > 1;
        merged |= isMerged;
        svg.rect(
                block.left(),
                y,
                Math.max(1, block.width()),
                lanes.height(),
                "fill=\"" + lanes.fill(first.rank()) + "\" stroke=\"#59636e\" stroke-width=\""
                        + (isMerged || !lanes.isRoomy() ? 0.3 : outline(block)) + "\"");
        if (tokenWidth >= CELL_TO_DRAW && !isMerged) {
            for (int token = first.begin() + 1; token < first.end(); token++) {
                svg.path(
                        String.format(Locale.ROOT, "M%.2f %.2fv%.2f", x(token), y, lanes.height()),
                        "stroke=\"#59636e\" stroke-width=\"0.4\"");
            }
        }
        if (lanes.isRoomy()) {
            int until = first.offset() + first.end() - first.begin();
            String range = "[" + first.offset() + "," + until + ")";
            if (isMerged) {
                labelIn(block, y + 17, PlanReport.count(block.count(), "fragment"), "" + block.count());
            } else {
                labelIn(block, y + 17, first.document() + range, range);
            }
        }
    }

    /**
     * Arrows of one direction and the rows that they bring, dashed. Forward, rows end where their reader's fragment begins;
     * backward, they begin where the owner's ends.
     *
     * @param side 1 forward, -1 backward
     */
    private void arrows(Lanes lanes, List<Crossing> crossings, int side) {
        String colour = side > 0 ? FORWARD : BACKWARD;
        for (Crossing crossing : crossings) {
            double cut = x(side > 0 ? crossing.end() : crossing.begin());
            double width = Math.max(HALO_WIDTH, crossing.rows() * tokenWidth);
            double x = cut - side * Math.min(width / 2, HALO_WIDTH);
            double target = lanes.y(lanes.of(crossing.to()));
            if (crossing.from() == crossing.to()) {
                svg.circle(x, target + lanes.height() + 5, 3, "fill=\"" + colour + "\"");
                continue;
            }
            svg.rect(
                    side > 0 ? cut - width : cut,
                    target,
                    width,
                    lanes.height(),
                    "fill=\"#ffffff\" fill-opacity=\"0.7\" stroke=\"" + colour
                            + "\" stroke-dasharray=\"3 2\" stroke-width=\"1.2\"");
            double source = lanes.y(lanes.of(crossing.from()));
            boolean isDown = source < target;
            double from = isDown ? source + lanes.height() : source;
            double to = isDown ? target - 1 : target + lanes.height() + 1;
            svg.path(
                    String.format(Locale.ROOT, "M%.2f %.2fV%.2f", x, from, to),
                    "stroke=\"" + colour + "\" stroke-width=\"1.6\" marker-end=\"url(#" + (side > 0 ? "f" : "b")
                            + ")\"");
            String rows = Integer.toString(crossing.rows());
            double labelX = x - side * 7;
            double labelY = from + (isDown ? 12 : -5);
            if (labels.stream()
                    .noneMatch(
                            at -> Math.abs(at.x() - labelX) < LABEL_ROOM && Math.abs(at.y() - labelY) < LABEL_ROOM)) {
                svg.text(
                        labelX,
                        labelY,
                        11,
                        rows,
                        "fill=\"" + colour + "\" text-anchor=\"" + (side > 0 ? "end" : "start") + "\"");
                labels.add(new Label(labelX, labelY));
            }
        }
    }
}
