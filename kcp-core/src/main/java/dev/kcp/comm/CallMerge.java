package dev.kcp.comm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Reads what {@link CallRecorder}s of the ranks of one job wrote, and says who is behind and where ranks differ. */
public final class CallMerge {
    /** A rank's last call in a group, and all that are known. */
    private record Progress(Map<Long, String> calls, long last, boolean finished) {}

    private CallMerge() {}

    /**
     * Merges the files of one job.
     *
     * @param files one per rank, in any order; ranks without a file are named as silent
     * @return lines of text for users, ending in a newline; per group who is behind, then where calls first differ
     * @throws UncheckedIOException if a file cannot be read
     */
    public static String report(List<Path> files) {
        Map<String, TreeMap<Integer, Progress>> groups = new TreeMap<>();
        StringBuilder text = new StringBuilder();
        int size = 0;
        List<Integer> ranks = new ArrayList<>();
        Map<Integer, String> waiting = new TreeMap<>();
        for (Path file : files) {
            List<JsonNode> lines = read(file);
            int rank = lines.getFirst().get("rank").asInt();
            size = lines.getFirst().get("size").asInt();
            ranks.add(rank);
            JsonNode waitsFor = lines.getFirst().path("waits_for");
            if (waitsFor.isTextual()) {
                waiting.put(rank, waitsFor.asText());
            }
            Map<String, Map<Long, String>> calls = new LinkedHashMap<>();
            Map<String, JsonNode> last = new LinkedHashMap<>();
            for (JsonNode line : lines.subList(1, lines.size())) {
                String group = line.get("group").asText();
                calls.computeIfAbsent(group, g -> new TreeMap<>())
                        .put(line.get("call").asLong(), describe(line));
                last.put(group, line);
            }
            last.forEach((group, line) -> groups.computeIfAbsent(group, g -> new TreeMap<>())
                    .put(
                            rank,
                            new Progress(
                                    calls.get(group),
                                    line.get("call").asLong(),
                                    !line.get("finished").isNull())));
        }
        for (int rank = 0; rank < size; rank++) {
            if (!ranks.contains(rank)) {
                text.append("rank ").append(rank).append(" wrote no calls\n");
            }
        }
        groups.forEach((group, progress) -> describe(text, group, progress));
        waiting.forEach((rank, what) -> text.append("rank ")
                .append(rank)
                .append(" waits for ")
                .append(what)
                .append('\n'));
        return text.toString();
    }

    private static List<JsonNode> read(Path file) {
        ObjectMapper mapper = new ObjectMapper();
        List<JsonNode> lines = new ArrayList<>();
        try {
            for (String line : Files.readAllLines(file)) {
                lines.add(mapper.readTree(line));
            }
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the last calls: file=" + file, e);
        }
        if (lines.isEmpty()) {
            throw new IllegalArgumentException("no calls were written here: file=" + file);
        }
        return lines;
    }

    private static String describe(JsonNode line) {
        return line.get("kind").asText() + " \"" + line.get("label").asText() + "\" channels="
                + line.get("channels").asLong() + " dtype=" + line.get("dtype").asText() + " plan="
                + line.get("plan").asText();
    }

    private static void describe(StringBuilder text, String group, TreeMap<Integer, Progress> ranks) {
        long least = ranks.values().stream().mapToLong(Progress::last).min().orElseThrow();
        long most = ranks.values().stream().mapToLong(Progress::last).max().orElseThrow();
        ranks.forEach((rank, progress) -> {
            if (progress.last() == least && least < most) {
                text.append("rank ")
                        .append(rank)
                        .append(" is behind in group ")
                        .append(group)
                        .append(": its last call was ")
                        .append(progress.last())
                        .append(' ')
                        .append(progress.calls().get(progress.last()))
                        .append(progress.finished() ? ", finished" : ", not finished")
                        .append("; others are at call ")
                        .append(most)
                        .append('\n');
            }
        });
        for (long call = 0; call <= least; call++) {
            Map<String, List<Integer>> sides = new LinkedHashMap<>();
            for (Map.Entry<Integer, Progress> entry : ranks.entrySet()) {
                String what = entry.getValue().calls().get(call);
                if (what != null) {
                    sides.computeIfAbsent(what, w -> new ArrayList<>()).add(entry.getKey());
                }
            }
            if (sides.size() > 1) {
                text.append("ranks differ on call ")
                        .append(call)
                        .append(" of group ")
                        .append(group);
                sides.forEach((what, who) ->
                        text.append("; ranks ").append(who).append(": ").append(what));
                text.append('\n');
                return;
            }
        }
    }
}
