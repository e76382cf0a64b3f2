package dev.kcp.train.report;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * A run as one HTML page that needs nothing else: its curves, how its first batch was shared out, and its settings.
 *
 * @param title heading
 * @param results what the run came to, by name
 * @param settings what it was started with, by name
 * @param points its steps
 * @param partitionSvg picture of the first batch's partition, if there is one
 */
public record RunReport(
        String title,
        Map<String, String> results,
        Map<String, String> settings,
        List<Curves.Point> points,
        Optional<String> partitionSvg) {
    private static final String STYLE = """
            :root { color-scheme: light; }
            body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif;
              color: #24292f; background: #fff; }
            h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
            img { display: block; width: 100%; height: auto; }
            .partition img { max-width: 40rem; }
            table { border-collapse: collapse; width: 100%; }
            th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #d8dee4;
              vertical-align: top; overflow-wrap: anywhere; }
            th { font-weight: 600; width: 40%; }
            p.note { color: #57606a; }
            """;

    /** The page. */
    public String html() {
        StringBuilder page = new StringBuilder(
                        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
                .append("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>")
                .append(escaped(title))
                .append("</title>\n<style>\n")
                .append(STYLE)
                .append("</style>\n</head>\n<body>\n<h1>")
                .append(escaped(title))
                .append("</h1>\n");
        table(page, results);
        page.append("<h2>Curves</h2>\n");
        if (points.isEmpty()) {
            page.append("<p class=\"note\">This process made no step.</p>\n");
        } else if (CurveCharts.cannotDraw().isPresent()) {
            page.append("<p class=\"note\">Java could not draw on the machine of this run.</p>\n");
        } else {
            chart(page, CurveCharts.Kind.LOSS, "Loss by step: " + figures(Curves.Point::loss, "%.3f"));
            chart(page, CurveCharts.Kind.SPEED, "Tokens per second by step");
            chart(page, CurveCharts.Kind.TIME, "Time of a step by step: compute, exchange and optimizer");
            page.append("<p class=\"note\">Time of a step on rank 0, median: compute ")
                    .append(median(Curves.Point::computeMillis))
                    .append(" ms, exchange ")
                    .append(median(Curves.Point::exchangeMillis))
                    .append(" ms (waiting for other ranks, also for those that compute longer), optimizer ")
                    .append(median(Curves.Point::optimizerMillis))
                    .append(" ms. The first steps are slower: programs are compiled in them.</p>\n");
        }
        partitionSvg.ifPresent(
                svg -> page.append("<h2>How the first batch is shared out</h2>\n<div class=\"partition\">")
                        .append("<img alt=\"Ranks, documents and halo rows of the first batch\" src=\"")
                        .append(dataUri(svg))
                        .append("\"></div>\n"));
        page.append("<h2>Settings</h2>\n");
        table(page, settings);
        return page.append("</body>\n</html>\n").toString();
    }

    private void chart(StringBuilder page, CurveCharts.Kind kind, String alternative) {
        page.append("<picture><source media=\"(max-width: 640px)\" srcset=\"")
                .append(dataUri(CurveCharts.svg(kind, points, CurveCharts.Size.NARROW)))
                .append("\"><img alt=\"")
                .append(escaped(alternative))
                .append("\" src=\"")
                .append(dataUri(CurveCharts.svg(kind, points, CurveCharts.Size.WIDE)))
                .append("\"></picture>\n");
    }

    private String figures(java.util.function.ToDoubleFunction<Curves.Point> of, String format) {
        return String.format(
                Locale.ROOT,
                "from " + format + " to " + format,
                of.applyAsDouble(points.getFirst()),
                of.applyAsDouble(points.getLast()));
    }

    private String median(java.util.function.ToDoubleFunction<Curves.Point> of) {
        return String.format(Locale.ROOT, "%.2f", Curves.median(points, of));
    }

    private static void table(StringBuilder page, Map<String, String> rows) {
        page.append("<table>\n");
        rows.forEach((name, value) -> page.append("<tr><th scope=\"row\">")
                .append(escaped(name))
                .append("</th><td>")
                .append(escaped(value))
                .append("</td></tr>\n"));
        page.append("</table>\n");
    }

    /** Pictures as images of their own: names inside one do not meet those of another. */
    private static String dataUri(String svg) {
        return "data:image/svg+xml;base64," + Base64.getEncoder().encodeToString(svg.getBytes(StandardCharsets.UTF_8));
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }
}
