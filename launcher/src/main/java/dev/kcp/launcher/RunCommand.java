package dev.kcp.launcher;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code kcp run}: starts ranks of any program on this machine and watches them. */
@Command(
        name = "run",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        description = {
            "Starts N ranks of a program on this machine and watches them.",
            "Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its "
                    + "environment, and KCP_STORE, KCP_JOB_ID and KCP_SECRET for programs that use kcp.",
            "Output lines carry their rank. The first rank that fails ends the job: the others get SIGTERM and, "
                    + "after the grace, SIGKILL, with everything they started. No rank outlives this command."
        },
        customSynopsis = "kcp run -n N [--grace SECONDS] [--timeout SECONDS] [--env K=V]... -- PROGRAM ARGS...",
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp run -n 4 -- python3 train.py --epochs 3",
            "  kcp run -n 2 --env OMP_NUM_THREADS=1 --timeout 3600 -- ./train",
            "",
            "Exit codes: 0 every rank ended with 0, 2 usage, 5 a rank failed (its own code is in the report),",
            "6 --timeout passed, 8 setsid is missing, 130/143 interrupted/terminated, 141 stdout was closed."
        })
final class RunCommand implements Callable<Integer> {
    @Option(
            names = {"-n", "--ranks"},
            required = true,
            paramLabel = "N",
            description = "How many ranks, at least 1.")
    private int ranks;

    @Option(
            names = "--grace",
            paramLabel = "SECONDS",
            defaultValue = "5",
            description = "Time between SIGTERM and SIGKILL (default: ${DEFAULT-VALUE}).")
    private double graceSeconds;

    @Option(
            names = "--timeout",
            paramLabel = "SECONDS",
            description = "End the job, with exit code 6, if it runs longer.")
    private Double timeoutSeconds;

    @Option(
            names = "--env",
            paramLabel = "K=V",
            description = "A further environment variable for every rank; may be given again.")
    private List<String> environment = List.of();

    @Parameters(
            arity = "0..*",
            paramLabel = "PROGRAM ARGS",
            description = "The program, found on PATH or by its path, and its arguments.")
    private List<String> program = List.of();

    @Override
    public Integer call() {
        if (program.isEmpty()) {
            throw new IllegalArgumentException("no program given; kcp run -n N -- PROGRAM ARGS...");
        }
        LaunchSpec spec = LaunchSpec.program(ranks, program)
                .withEnvironment(variables())
                .withGrace(seconds("--grace", graceSeconds));
        if (timeoutSeconds != null) {
            spec = spec.withTimeout(seconds("--timeout", timeoutSeconds));
        }
        return LocalAgent.run(spec).exitCode();
    }

    private Map<String, String> variables() {
        Map<String, String> variables = new LinkedHashMap<>();
        for (String pair : environment) {
            int equals = pair.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("--env wants K=V: env=" + pair);
            }
            variables.put(pair.substring(0, equals), pair.substring(equals + 1));
        }
        return variables;
    }

    private static Duration seconds(String option, double seconds) {
        if (!(seconds >= 0 && seconds <= 1e9)) {
            throw new IllegalArgumentException(option + " wants seconds from 0 to 1e9: seconds=" + seconds);
        }
        return Duration.ofMillis(Math.round(seconds * 1e3));
    }
}
