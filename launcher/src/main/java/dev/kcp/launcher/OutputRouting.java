package dev.kcp.launcher;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/**
 * Connects every rank's two pipes to the launcher's stdout and stderr, and to the ranks' log files.
 *
 * @param plan where the ranks' output goes
 * @param attempt how often the ranks were restarted before
 */
record OutputRouting(OutputPlan plan, int attempt, OutputSink out, OutputSink err) {
    /**
     * Makes the log folder.
     *
     * @throws IllegalArgumentException if there can be none
     */
    void prepare() {
        plan.logFolder().ifPresent(folder -> {
            try {
                Files.createDirectories(folder);
            } catch (IOException e) {
                throw new IllegalArgumentException(
                        "--log-dir cannot be made, " + (Files.exists(folder) ? "it is a file" : e.getMessage())
                                + ": log-dir=" + folder,
                        e);
            }
            if (!Files.isWritable(folder)) {
                throw new IllegalArgumentException("--log-dir cannot be written, permission denied: log-dir=" + folder);
            }
        });
    }

    /** Starts the pump of a rank's stdout. */
    OutputPump stdout(int rank, InputStream in) throws IOException {
        boolean prefixed = plan.style() == OutputPlan.Style.PREFIXED;
        boolean raw = !prefixed && rank == 0;
        OutputSink console = !plan.isOnConsole(rank) ? null : prefixed || raw ? out : err;
        return OutputPump.start(
                "kcp-rank-" + rank + "-stdout",
                in,
                new OutputPump.Route(console, raw ? null : prefix(rank), false, log(rank, "out"), null));
    }

    /** Starts the pump of a rank's stderr. */
    OutputPump stderr(int rank, InputStream in, OutputTail tail) throws IOException {
        boolean hidesJvmWarning = plan.style() == OutputPlan.Style.RANK0_STDOUT_RAW;
        OutputSink console = plan.isOnConsole(rank) ? err : null;
        return OutputPump.start(
                "kcp-rank-" + rank + "-stderr",
                in,
                new OutputPump.Route(console, prefix(rank), hidesJvmWarning, log(rank, "err"), tail));
    }

    private OutputStream log(int rank, String stream) throws IOException {
        Optional<Path> file = plan.logFile(rank, attempt, stream);
        return file.isPresent() ? Files.newOutputStream(file.get()) : null;
    }

    private static String prefix(int rank) {
        return "[rank " + rank + "] ";
    }
}
