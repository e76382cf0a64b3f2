package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiConsumer;

/**
 * Connects every rank's two pipes to the launcher's stdout and stderr, and to the ranks' log files.
 *
 * @param plan where the ranks' output goes
 * @param attempt how often the ranks were restarted before
 * @param onLoss told where output is lost, and why
 */
record OutputRouting(
        OutputPlan plan, int attempt, OutputSink out, OutputSink err, BiConsumer<String, IOException> onLoss) {
    /**
     * Makes the log folder.
     *
     * @throws KcpException BAD_DATA if there can be none
     */
    void prepare() {
        plan.logFolder().ifPresent(folder -> {
            try {
                Files.createDirectories(folder);
            } catch (IOException e) {
                String why = Files.exists(folder) ? "it is a file" : FileFailures.reason(e);
                throw refused("--log-dir cannot be made, " + why + ": log-dir=" + folder, e);
            }
            if (!Files.isWritable(folder)) {
                throw refused("--log-dir cannot be written, permission denied: log-dir=" + folder, null);
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

    private OutputSink log(int rank, String stream) throws IOException {
        Optional<Path> file = plan.logFile(rank, attempt, stream);
        return file.isPresent()
                ? new OutputSink(
                        Files.newOutputStream(file.get()),
                        new ReentrantLock(),
                        e -> onLoss.accept("the log " + file.get(), e))
                : null;
    }

    private static KcpException refused(String message, IOException cause) {
        return new KcpException(KcpException.Code.BAD_DATA, message, cause);
    }

    private static String prefix(int rank) {
        return "[rank " + rank + "] ";
    }
}
