package dev.kcp.launcher;

import java.io.InputStream;

/**
 * Connects every rank's two pipes to the launcher's stdout and stderr.
 *
 * @param how where the ranks' output goes
 */
record OutputRouting(LaunchSpec.Output how, OutputSink out, OutputSink err) {
    /** Starts the pump of a rank's stdout. */
    OutputPump stdout(int rank, InputStream in) {
        String name = "kcp-rank-" + rank + "-stdout";
        return switch (how) {
            case PREFIXED -> OutputPump.lines(name, in, out, prefix(rank), false);
            case RANK0_STDOUT_RAW ->
                rank == 0 ? OutputPump.raw(name, in, out) : OutputPump.lines(name, in, err, prefix(rank), false);
        };
    }

    /** Starts the pump of a rank's stderr. */
    OutputPump stderr(int rank, InputStream in) {
        boolean hidesJvmWarning = how == LaunchSpec.Output.RANK0_STDOUT_RAW;
        return OutputPump.lines("kcp-rank-" + rank + "-stderr", in, err, prefix(rank), hidesJvmWarning);
    }

    private static String prefix(int rank) {
        return "[rank " + rank + "] ";
    }
}
