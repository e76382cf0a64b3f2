package dev.kcp.bench;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Reads what {@link BenchReport#toJson} wrote. */
public final class BenchFiles {
    private BenchFiles() {}

    /**
     * A report from its file.
     *
     * @throws KcpException BAD_DATA naming the file and what it lacks
     */
    public static BenchReport read(Path path) {
        try {
            JsonNode json = new ObjectMapper().readTree(Files.readAllBytes(path));
            if (!json.path("rows").isArray()) {
                throw bad(path, "is no report of kcp bench: it lacks rows", null);
            }
            List<BenchRow> rows = new ArrayList<>();
            for (JsonNode row : json.path("rows")) {
                rows.add(new BenchRow(
                        text(path, row, "op"),
                        number(path, row, "S").longValue(),
                        number(path, row, "C").longValue(),
                        number(path, row, "documents").intValue(),
                        text(path, row, "program"),
                        number(path, row, "threads").intValue(),
                        number(path, row, "iterations").intValue(),
                        number(path, row, "ms").doubleValue(),
                        number(path, row, "fastest_ms").doubleValue(),
                        number(path, row, "bytes").longValue(),
                        number(path, row, "floor_ms").doubleValue()));
            }
            return new BenchReport(
                    text(path, json, "machine"),
                    text(path, json, "device"),
                    number(path, json, "copy_gbps").doubleValue(),
                    text(path, json, "commit"),
                    rows);
        } catch (JsonProcessingException e) {
            throw bad(path, "is not JSON: " + e.getOriginalMessage(), e);
        } catch (IOException e) {
            throw bad(path, Files.exists(path) ? "cannot be read" : "does not exist", e);
        }
    }

    private static String text(Path path, JsonNode from, String field) {
        if (!from.path(field).isTextual()) {
            throw bad(path, "is no report of kcp bench: it lacks " + field, null);
        }
        return from.path(field).asText();
    }

    private static Number number(Path path, JsonNode from, String field) {
        if (!from.path(field).isNumber()) {
            throw bad(path, "is no report of kcp bench: it lacks " + field, null);
        }
        return from.path(field).numberValue();
    }

    private static KcpException bad(Path path, String what, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, path + " " + what, cause);
    }
}
