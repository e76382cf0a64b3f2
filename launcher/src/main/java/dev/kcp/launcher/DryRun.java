package dev.kcp.launcher;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Shows what a launch would start.
 *
 * @param outer the environment that ranks would inherit
 */
record DryRun(LaunchSpec spec, Map<String, String> outer) {
    private static final String DRAWN = "(drawn at the start)";

    /** Prints the map of ranks, and each rank's variables and command line in words that a shell reads. */
    void print(PrintWriter out) {
        out.println("ranks " + spec.ranks() + ", host " + Host.name() + ", grace "
                + spec.grace().toMillis() / 1e3 + " s, timeout "
                + spec.timeout().map(time -> time.toMillis() / 1e3 + " s").orElse("none") + ", restarts "
                + spec.maxRestarts());
        JobEnvironment job = JobEnvironment.create(spec.ranks(), 1);
        for (int rank = 0; rank < spec.ranks(); rank++) {
            List<String> command = spec.command().forRank(rank, Path.of("/tmp/kcp-job/rank-" + rank + "/tmp"));
            Programs.require(command.getFirst(), spec.environment().getOrDefault("PATH", outer.get("PATH")));
            Map<String, String> variables = new TreeMap<>(spec.environment());
            variables.putAll(job.of(rank, 1));
            for (String name : List.of("MASTER_PORT", "KCP_STORE", "KCP_JOB_ID", "KCP_SECRET", "KCP_CALLS_DIR")) {
                variables.put(name, DRAWN);
            }
            variables.put("KCP_RESTART", "0");
            out.println("rank " + rank);
            variables.forEach((name, value) -> out.println("  " + name + "=" + quoted(value)));
            for (String stream : List.of("out", "err")) {
                spec.output().logFile(rank, 0, stream).ifPresent(file -> out.println("  std" + stream + " > " + file));
            }
            out.println("  $ " + command.stream().map(DryRun::quoted).collect(Collectors.joining(" ")));
        }
        out.flush();
    }

    private static String quoted(String word) {
        return word.equals(DRAWN) || word.matches("[A-Za-z0-9_./:=,@%+-]+")
                ? word
                : "'" + word.replace("'", "'\\''") + "'";
    }
}
