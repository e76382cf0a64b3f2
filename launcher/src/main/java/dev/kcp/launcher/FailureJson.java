package dev.kcp.launcher;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import dev.kcp.files.WholeFile;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** The failure report for programs: {@code docs/clusters.md} lists its fields. */
final class FailureJson {
    private static final ObjectMapper JSON = new ObjectMapper();

    private FailureJson() {}

    /** The report as an object; a field that has no value is left out. */
    static ObjectNode of(FailureReport report, int exitCode, int restarts) {
        ObjectNode json = JSON.createObjectNode();
        json.put("exit_code", exitCode);
        json.put(
                "reason",
                report.overdue().map(over -> over.isHang() ? "hang" : "timeout").orElse("rank_failed"));
        json.put("host", report.host());
        json.put("started_at", report.startedAt().toString());
        json.put("restarts", restarts);
        report.overdue().ifPresent(over -> overdue(json, over));
        report.first().ifPresent(first -> json.set("first_failure", rank(report, first)));
        lines(json, "calls", report.calls());
        ArrayNode ranks = json.putArray("ranks");
        report.ends().forEach(end -> ranks.add(rank(report, end)));
        return json;
    }

    private static void overdue(ObjectNode json, Overdue over) {
        json.put(over.isHang() ? "hang_timeout_s" : "timeout_s", over.limit().toMillis() / 1e3);
        if (over.isHang()) {
            over.inside().forEach(json.putArray("ranks_inside_a_call")::add);
        }
    }

    private static ObjectNode rank(FailureReport report, RankEnd end) {
        ObjectNode json = JSON.createObjectNode();
        RankTrace trace = report.trace(end.rank());
        json.put("rank", end.rank());
        json.put("host", report.host());
        json.put("pid", end.pid());
        json.put("end", end.describe());
        json.put("ended_by_launcher", end.cause() == RankEnd.Cause.LAUNCHER);
        end.status()
                .signal()
                .ifPresentOrElse(
                        name -> json.put("signal", name),
                        () -> json.put("exit_code", end.status().value()));
        json.put("at", end.at().toString());
        json.put("after_s", Duration.between(report.startedAt(), end.at()).toMillis() / 1e3);
        trace.message().ifPresent(message -> json.put("message", message));
        lines(json, "stderr_tail", trace.lastLines());
        lines(json, "thread_dump", trace.threadDump());
        trace.crashFile().ifPresent(file -> json.put("crash_file", file.toString()));
        lines(json, "logs", trace.logs().stream().map(Path::toString).toList());
        if (!trace.lastCalls().isEmpty()) {
            ArrayNode calls = json.putArray("last_calls");
            trace.lastCalls().forEach(call -> add(calls, call));
        }
        return json;
    }

    private static void lines(ObjectNode json, String name, List<String> lines) {
        if (!lines.isEmpty()) {
            lines.forEach(json.putArray(name)::add);
        }
    }

    private static void add(ArrayNode calls, String line) {
        try {
            calls.add(JSON.readTree(line));
        } catch (JsonProcessingException cutOff) {
            calls.add(line);
        }
    }

    /**
     * Writes the report.
     *
     * @throws KcpException BAD_DATA if the file cannot be written
     */
    static void write(Path file, ObjectNode json) {
        try {
            WholeFile.write(file, json.toPrettyString() + "\n");
        } catch (IOException e) {
            throw refused(file, e);
        }
    }

    /**
     * Takes away an earlier job's report.
     *
     * @throws KcpException BAD_DATA if no report can be written in its place
     */
    static void remove(Path file) {
        try {
            WholeFile.requireWritable(file);
            WholeFile.remove(file);
        } catch (IOException e) {
            throw refused(file, e);
        }
    }

    private static KcpException refused(Path file, IOException e) {
        return new KcpException(
                KcpException.Code.BAD_DATA,
                "--error-file cannot be written, " + FileFailures.reason(e) + ": error-file=" + file,
                e);
    }
}
