package dev.kcp.launcher;

import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;

/**
 * Where the ranks' output goes.
 *
 * @param style how it looks on the console
 * @param logFolder where every rank's stdout and stderr get files of their own, if anywhere
 * @param tee whether what goes to files goes to the console too
 * @param shown ranks whose output the console gets
 */
public record OutputPlan(Style style, Optional<Path> logFolder, boolean tee, RankSet shown) {
    /** How the ranks' output looks on the console. */
    public enum Style {
        /** Stdout to stdout, stderr to stderr, in whole lines that begin with {@code [rank k] }. */
        PREFIXED,
        /**
         * Rank 0's stdout goes to stdout byte by byte as it comes, for progress lines and JSON; every other output
         * goes to stderr in prefixed lines, but the JVM's incubator warning, which is left out.
         */
        RANK0_STDOUT_RAW
    }

    /** @throws IllegalArgumentException if output is to be doubled but goes to no file */
    public OutputPlan {
        Objects.requireNonNull(style, "style");
        Objects.requireNonNull(shown, "shown");
        if (tee && logFolder.isEmpty()) {
            throw new IllegalArgumentException("--tee needs --log-dir DIR: log-dir=none");
        }
    }

    /** Everything to the console, nothing to files. */
    static OutputPlan console(Style style) {
        return new OutputPlan(style, Optional.empty(), false, RankSet.ALL);
    }

    boolean isOnConsole(int rank) {
        return (logFolder.isEmpty() || tee) && shown.contains(rank);
    }

    /** The file of a rank's {@code out} or {@code err}; a restarted rank gets a new one. */
    Optional<Path> logFile(int rank, int attempt, String stream) {
        String name = "rank-" + rank + (attempt == 0 ? "" : ".restart-" + attempt) + "." + stream;
        return logFolder.map(folder -> folder.resolve(name));
    }
}
