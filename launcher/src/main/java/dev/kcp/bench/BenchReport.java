package dev.kcp.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Locale;

/**
 * All lines of one run; one form for every device.
 *
 * @param machine processor and cores
 * @param device for example {@code cpu 2 threads}
 * @param copyGigabytesPerSecond bytes read plus bytes written by a plain copy in the same run; 0 where floors are not made
 *     of it
 * @param commit of the code that ran
 */
public record BenchReport(
        String machine, String device, double copyGigabytesPerSecond, String commit, List<BenchRow> rows) {
    /** Copies the rows. */
    public BenchReport {
        rows = List.copyOf(rows);
    }

    /** The report as JSON, for files and for plots. */
    public String toJson() {
        ObjectMapper mapper = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        ObjectNode json = mapper.createObjectNode();
        json.put("machine", machine);
        json.put("device", device);
        json.put("copy_gbps", round(copyGigabytesPerSecond));
        json.put("commit", commit);
        for (BenchRow row : rows) {
            json.withArray("rows")
                    .addObject()
                    .put("op", row.op())
                    .put("S", row.tokens())
                    .put("C", row.channels())
                    .put("documents", row.documents())
                    .put("program", row.program())
                    .put("threads", row.threads())
                    .put("iterations", row.iterations())
                    .put("ms", round(row.milliseconds()))
                    .put("fastest_ms", round(row.fastestMilliseconds()))
                    .put("bytes", row.bytes())
                    .put("floor_ms", round(row.floorMilliseconds()))
                    .put("ratio", round(row.ratio()));
        }
        return json.toPrettyString();
    }

    /** The report for a person. */
    public String toTable() {
        StringBuilder table = new StringBuilder(
                copyGigabytesPerSecond == 0
                        ? String.format("%s, %s%n", machine, device)
                        : String.format(
                                Locale.ROOT, "%s, %s, copy %.1f GB/s%n", machine, device, copyGigabytesPerSecond));
        table.append(String.format(
                "%-11s %16s %6s %10s %10s %7s  %s%n", "op", "S x C", "docs", "ms", "floor ms", "ratio", "program"));
        for (BenchRow row : rows) {
            table.append(String.format(
                    Locale.ROOT,
                    "%-11s %16s %6s %10.4f %10.4f %7.2f  %s%n",
                    row.op(),
                    row.isExchange() ? row.bytes() + " B" : row.tokens() + " x " + row.channels(),
                    row.isExchange() ? "" : Integer.toString(row.documents()),
                    row.milliseconds(),
                    row.floorMilliseconds(),
                    row.ratio(),
                    row.program()));
        }
        return table.toString();
    }

    private static double round(double value) {
        return Double.parseDouble(String.format(Locale.ROOT, "%.5g", value));
    }
}
