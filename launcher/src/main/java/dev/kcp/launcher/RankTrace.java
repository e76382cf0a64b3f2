package dev.kcp.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * What one rank left behind that may say why it failed.
 *
 * @param lastLines the end of its stderr
 * @param logs its log files, if it has any
 * @param crashFile the JVM's crash log, if it wrote one
 * @param lastCalls its last collective calls, a line of JSON each, oldest first, if it kept a record
 * @param threadDump what its threads did before it was ended, if it was hung and could be asked
 */
record RankTrace(
        List<String> lastLines,
        List<Path> logs,
        Optional<Path> crashFile,
        List<String> lastCalls,
        List<String> threadDump) {
    static final RankTrace NONE = new RankTrace(List.of(), List.of(), Optional.empty(), List.of(), List.of());

    private static final int LAST_CALLS = 5;
    private static final int CALL_RECORD_BYTES = 64 << 10;

    RankTrace {
        lastLines = List.copyOf(lastLines);
        logs = List.copyOf(logs);
        lastCalls = List.copyOf(lastCalls);
        threadDump = List.copyOf(threadDump);
    }

    /** What the rank said last of its failure. */
    Optional<String> message() {
        return OutputTail.message(lastLines);
    }

    /**
     * A crash log of the JVM that is no older than the job, by the rank's process id or its number in the file's name.
     *
     * @param folders where it may be
     */
    static Optional<Path> crashFile(List<Path> folders, int rank, OptionalLong pid, Instant since) {
        for (Path folder : folders) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "hs_err_pid*.log")) {
                for (Path file : files) {
                    String name = file.getFileName().toString();
                    boolean isRanks = name.endsWith("_rank" + rank + ".log")
                            || (pid.isPresent() && name.equals("hs_err_pid" + pid.getAsLong() + ".log"));
                    if (isRanks && !Files.getLastModifiedTime(file).toInstant().isBefore(since)) {
                        return Optional.of(file.toAbsolutePath());
                    }
                }
            } catch (IOException unreadable) {
                // A folder that cannot be listed has nothing to show.
            }
        }
        return Optional.empty();
    }

    /** The last lines of a rank's record of calls, which may still be growing. */
    static List<String> lastCalls(Path record) {
        try {
            byte[] bytes = Files.readAllBytes(record);
            int from = Math.max(0, bytes.length - CALL_RECORD_BYTES);
            List<String> lines = new ArrayList<>(new String(bytes, from, bytes.length - from, StandardCharsets.UTF_8)
                    .lines()
                    .toList());
            lines.removeIf(String::isBlank);
            return lines.subList(Math.max(0, lines.size() - LAST_CALLS), lines.size());
        } catch (IOException none) {
            return List.of();
        }
    }
}
