package dev.kcp.launcher;

import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code kcp run}: starts ranks of any program on this machine and watches them. */
@Command(
        name = "run",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        sortOptions = false,
        description = {
            "Starts N ranks of a program on this machine and watches them.",
            "Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its "
                    + "environment, and KCP_STORE, KCP_JOB_ID and KCP_SECRET for programs that use kcp.",
            "Output lines carry their rank. The first rank that fails ends the job: the others get SIGTERM and, "
                    + "after the grace, SIGKILL, with everything they started. No rank outlives this command.",
            "java:CLASS in the program's place runs a Java class with the settings that kcp needs: native access, "
                    + "vector module, a temporary folder and a crash log of its own."
        },
        customSynopsis = "kcp run -n N [OPTIONS] -- PROGRAM ARGS...",
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp run -n 4 -- python3 train.py --epochs 3",
            "  kcp run -n gpu --log-dir logs --tee --error-file failure.json -- ./train",
            "  kcp run -n 2 --jvm-arg -Xmx2g --class-path app.jar -- java:com.example.Train --steps 9",
            "",
            "Options that are not given are taken from KCP_RUN_<OPTION>: --log-dir from KCP_RUN_LOG_DIR, -n from",
            "KCP_RUN_RANKS; KCP_RUN_ENV and KCP_RUN_JVM_ARG are split at spaces.",
            "Exit codes: 0 every rank ended with 0, 2 usage or no such program, 3 output cannot be written, as on a full disk,",
            "5 a rank failed (its own code is in the report), 6 --timeout or --hang-timeout passed, 8 a GPU or numactl is missing,",
            "130/143 interrupted/terminated, 141 stdout was closed."
        })
final class RunCommand implements Callable<Integer> {
    private static final String JAVA = "java:";

    @Option(
            names = {"-n", "--ranks"},
            required = true,
            paramLabel = "N",
            description =
                    "How many ranks, at least 1; gpu: one for each visible GPU; auto: as gpu where there are GPUs, "
                            + "else one for each CPU core.")
    private String ranks;

    @Option(
            names = "--devices",
            paramLabel = "LIST",
            description =
                    "GPUs of the job, by index or UUID; rank k is to take the k-th. Becomes CUDA_VISIBLE_DEVICES.")
    private String devices;

    @Option(
            names = "--env",
            paramLabel = "K=V",
            description = "A further environment variable for every rank; may be given again.")
    private List<String> environment = List.of();

    @Option(
            names = "--log-dir",
            paramLabel = "DIR",
            description = "Write each rank's stdout and stderr to DIR/rank-K.out and .err instead of the console.")
    private Path logFolder;

    @Option(names = "--tee", description = "With --log-dir, show the output on the console too.")
    private boolean tee;

    @Option(
            names = "--filter-ranks",
            paramLabel = "LIST",
            description = "Show only these ranks on the console, such as 0,2-5. Log files get all.")
    private String shownRanks;

    @Option(
            names = "--timeout",
            paramLabel = "SECONDS",
            description = "End the job, with exit code 6, if it runs longer.")
    private Double timeoutSeconds;

    @Option(
            names = "--hang-timeout",
            paramLabel = "SECONDS",
            description =
                    "End the job, with exit code 6 and a report of who is behind, if for so long no rank completes "
                            + "a collective call of kcp while a rank is inside one.")
    private Double hangSeconds;

    @Option(
            names = "--grace",
            paramLabel = "SECONDS",
            defaultValue = "5",
            description = "Time between SIGTERM and SIGKILL (default: 5).")
    private double graceSeconds;

    @Option(
            names = "--max-restarts",
            paramLabel = "R",
            defaultValue = "0",
            description = "Start all ranks again, up to R times, when one fails; KCP_RESTART counts (default: 0).")
    private int maxRestarts;

    @Option(
            names = "--error-file",
            paramLabel = "FILE",
            description =
                    "Write the failure report as JSON; a file of an earlier job is removed, one behind a link emptied.")
    private Path errorFile;

    @Option(names = "--numa", description = "Bind each rank to a NUMA node; needs the program numactl.")
    private boolean numa;

    @Option(
            names = "--jvm-arg",
            paramLabel = "ARG",
            description = "A further flag for the JVM of java:CLASS; may be given again.")
    private List<String> jvmArguments = List.of();

    @Option(names = "--class-path", paramLabel = "PATH", description = "Class path of java:CLASS, before kcp's own.")
    private Path classPath;

    @Option(names = "--dry-run", description = "Print each rank's variables and command line, and start nothing.")
    private boolean dryRun;

    @Parameters(
            arity = "0..*",
            paramLabel = "PROGRAM ARGS",
            description = "The program, found on PATH or by its path, or java:CLASS, and its arguments.")
    private List<String> program = List.of();

    @Spec
    private CommandSpec command;

    private final Map<String, String> outer;
    private final EnvironmentDefaults defaults;

    /** @param outer this process's environment */
    RunCommand(Map<String, String> outer) {
        this.outer = outer;
        this.defaults = new EnvironmentDefaults(outer);
    }

    @Override
    public Integer call() {
        if (program.isEmpty() || program.getFirst().isEmpty()) {
            throw new ParameterException(command.commandLine(), "no program is given: kcp run -n N -- PROGRAM ARGS...");
        }
        List<String> gpus =
                devices == null ? Gpus.visible(outer.get(Gpus.VISIBLE), Gpus.present()) : Gpus.parse(devices);
        LaunchSpec spec = spec(ranks(gpus), gpus);
        if (dryRun) {
            new DryRun(spec, outer).print(command.commandLine().getOut());
            return ExitCode.DONE;
        }
        removeOldReport();
        int code = LocalAgent.run(spec).exitCode();
        if (code == ExitCode.DONE) {
            removeOldReport();
        }
        return code;
    }

    private LaunchSpec spec(int count, List<String> gpus) {
        if (devices != null) {
            Gpus.requireOneEach(gpus, count);
        }
        LaunchSpec spec = LaunchSpec.program(count, program)
                .withEnvironment(variables())
                .withGrace(seconds("--grace", graceSeconds))
                .withOutput(new OutputPlan(
                        OutputPlan.Style.PREFIXED,
                        Optional.ofNullable(logFolder),
                        tee,
                        shownRanks == null ? RankSet.ALL : RankSet.parse(shownRanks)))
                .withMaxRestarts(OptionRange.atLeast("--max-restarts", maxRestarts, 0));
        spec = spec.withCommand(rankCommand(spec.command(), count));
        if (timeoutSeconds != null) {
            spec = spec.withTimeout(positiveSeconds("--timeout", timeoutSeconds));
        }
        if (hangSeconds != null) {
            spec = spec.withHangTimeout(positiveSeconds("--hang-timeout", hangSeconds));
        }
        return errorFile == null ? spec : spec.withErrorFile(errorFile);
    }

    private int ranks(List<String> gpus) {
        switch (ranks) {
            case "gpu" -> {
                Gpus.requireOneEach(gpus, 1);
                return gpus.size();
            }
            case "auto" -> {
                return gpus.isEmpty() ? Runtime.getRuntime().availableProcessors() : gpus.size();
            }
            default -> {
                try {
                    return OptionRange.within("-n", Integer.parseInt(ranks), 1, LaunchSpec.MAX_RANKS);
                } catch (NumberFormatException e) {
                    throw new IllegalArgumentException("-n must be a whole number, gpu or auto: n=" + ranks, e);
                }
            }
        }
    }

    private LaunchSpec.RankCommand rankCommand(LaunchSpec.RankCommand plain, int count) {
        List<String> flags = defaults.words("--jvm-arg", jvmArguments);
        LaunchSpec.RankCommand base = plain;
        if (program.getFirst().startsWith(JAVA)) {
            String mainClass = program.getFirst().substring(JAVA.length());
            if (mainClass.isEmpty()) {
                throw new IllegalArgumentException(
                        "no class is named behind java: as in java:com.example.Train: program=" + program.getFirst());
            }
            base = WorkerCommand.ofClass(
                    mainClass,
                    flags,
                    classPath == null ? null : classPath.toString(),
                    program.subList(1, program.size()));
        } else if (!flags.isEmpty() || classPath != null) {
            throw new IllegalArgumentException(
                    "--jvm-arg and --class-path are for java:CLASS: program=" + program.getFirst());
        }
        if (!numa) {
            return base;
        }
        LaunchSpec.RankCommand unbound = base;
        Numa nodes = Numa.ofThisMachine(outer.get("PATH"));
        return (rank, scratch) -> {
            List<String> words = unbound.forRank(rank, scratch);
            // Under numactl a mistyped program would fail once for every rank.
            Programs.require(words.getFirst(), outer.get("PATH"));
            return nodes.bind(words, rank, count);
        };
    }

    private Map<String, String> variables() {
        Map<String, String> variables = new LinkedHashMap<>();
        if (devices != null) {
            variables.put(Gpus.VISIBLE, String.join(",", Gpus.parse(devices)));
        }
        for (String pair : defaults.words("--env", environment)) {
            int equals = pair.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("--env takes K=V: env=" + pair);
            }
            variables.put(pair.substring(0, equals), pair.substring(equals + 1));
        }
        return variables;
    }

    /** A report that is there after the job is this job's. */
    private void removeOldReport() {
        if (errorFile != null) {
            FailureJson.remove(errorFile);
        }
    }

    private static Duration positiveSeconds(String option, double seconds) {
        return seconds(option, OptionRange.positive(option, seconds));
    }

    private static Duration seconds(String option, double seconds) {
        if (!(seconds >= 0 && seconds <= 1e9)) {
            throw new IllegalArgumentException(option + " takes seconds from 0 to 1e9: seconds=" + seconds);
        }
        return Duration.ofMillis(Math.round(seconds * 1e3));
    }
}
