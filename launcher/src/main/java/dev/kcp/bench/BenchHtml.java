package dev.kcp.bench;

import java.util.List;
import java.util.Locale;

/**
 * Reports as one HTML page that needs nothing else: for every run a table whose bars are times over the floor, the floor
 * being the same mark in every bar.
 */
public final class BenchHtml {
    /** Bars end here; a ratio beyond is cut and says so. */
    private static final double MOST_RATIO = 12;

    private static final String HEAD = """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>kcp bench</title>
            <style>
            body { font: 15px/1.45 system-ui, sans-serif; color: #1f2328; background: #fff; max-width: 60em; margin: 1.5em auto; padding: 0 1em }
            h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin: 1.6em 0 .2em } p { margin: .2em 0 .6em; color: #59636e }
            .row { display: grid; grid-template-columns: 17em 1fr; gap: .1em 1em; border-top: 1px solid #d1d9e0; padding: .45em 0 }
            .shape { font-weight: 600 } .program { color: #59636e; font-size: .85em; overflow-wrap: anywhere }
            .numbers { font-variant-numeric: tabular-nums }
            .bar { position: relative; height: 1.1em; background: #f6f8fa }
            .time { position: absolute; inset: 0 auto 0 0; background: #80ccff } .backward .time { background: #ffb77c }
            .floor { position: absolute; top: -.15em; bottom: 0; border-left: 2px solid #1f2328 }
            @media (max-width: 40em) { .row { grid-template-columns: 1fr } }
            </style>
            </head>
            <body>
            <h1>kcp bench</h1>
            <p>A bar is the median time, the black mark its floor: a bar that ends at the mark is as fast as can be. The floor of
            forward and backward is a plain copy of the least bytes that they must move; of step, the single-rank op on as many
            tokens; of exchange, a copy of as many bytes. All are timed in the same run.</p>
            """;

    private BenchHtml() {}

    /**
     * The page.
     *
     * @param reports in the order in which to show them
     */
    public static String write(List<BenchReport> reports) {
        double most = reports.stream()
                .flatMap(report -> report.rows().stream())
                .mapToDouble(BenchRow::ratio)
                .filter(Double::isFinite)
                .max()
                .orElse(1);
        double full = Math.clamp(most, 1.25, MOST_RATIO);
        StringBuilder page = new StringBuilder(HEAD);
        for (BenchReport report : reports) {
            page.append(format(
                    "<h2>%s, %s</h2>%n<p>%scommit %s</p>%n",
                    escape(report.machine()),
                    escape(report.device()),
                    report.copyGigabytesPerSecond() == 0
                            ? ""
                            : format("copy %.4g GB/s, ", report.copyGigabytesPerSecond()),
                    report.commit().isEmpty() ? "unknown" : escape(report.commit())));
            report.rows().forEach(row -> page.append(row(row, full)));
        }
        return page.append("</body>\n</html>\n").toString();
    }

    private static String row(BenchRow row, double full) {
        return format(
                """
                <div class="row %s">
                  <div><div class="shape">%s %s</div><div class="program">%s%s</div></div>
                  <div><div class="bar"><div class="time" style="width:%.2f%%"></div>\
                <div class="floor" style="left:%.2f%%"></div></div>
                  <div class="numbers">%.4g ms, floor %.4g ms, ratio <b>%.2f</b>%s; fastest %.4g ms, %d runs</div></div>
                </div>
                """,
                escape(row.op()),
                escape(row.op()),
                row.isExchange() ? row.bytes() + " B" : row.tokens() + " × " + row.channels(),
                documents(row),
                escape(row.program()),
                100 * Math.min(row.ratio(), full) / full,
                100 / full,
                row.milliseconds(),
                row.floorMilliseconds(),
                row.ratio(),
                row.ratio() > full ? " (bar cut)" : "",
                row.fastestMilliseconds(),
                row.iterations());
    }

    private static String documents(BenchRow row) {
        return row.isExchange() ? "" : row.documents() == 1 ? "1 document, " : row.documents() + " documents, ";
    }

    private static String format(String format, Object... values) {
        return String.format(Locale.ROOT, format, values);
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }
}
