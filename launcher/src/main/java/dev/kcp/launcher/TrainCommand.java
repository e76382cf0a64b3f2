package dev.kcp.launcher;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.RankInfo;
import dev.kcp.train.LossLog;
import dev.kcp.train.Progress;
import dev.kcp.train.TextCorpus;
import dev.kcp.train.TrainConfig;
import dev.kcp.train.TrainListener;
import dev.kcp.train.TrainLoop;
import dev.kcp.train.TrainSummary;
import java.io.Console;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code kcp train}: trains a byte-level language model whose tokens are sharded over ranks. */
@Command(
        name = "train",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        sortOptions = false,
        description = {
            "Trains a small byte-level language model on text, each batch sharded over N ranks.",
            "Documents are separated by blank lines and packed end to end into batches of exactly --tokens tokens. "
                    + "Every world size sees the same batches. The last line on stdout is a JSON summary; its "
                    + "first_loss and final_loss are the losses of the first and the last batch in nats per byte, "
                    + "each before that step's update.",
            "Started by kcp run, torchrun, mpirun, srun or as a Kubernetes indexed job, this process is one rank."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp train --data book.txt --world 2",
            "  kcp train --data texts/ more.txt --world 4 --layout zigzag --steps 1000",
            "",
            "Exit codes: 0 done, 2 usage, 3 bad input data, 4 rendezvous, 5 a rank failed,",
            "6 deadline, 7 ranks disagree, 8 missing device or library,",
            "130/143 interrupted/terminated."
        })
final class TrainCommand implements Callable<Integer> {
    private static final int MAX_THREADS = 1024;

    /** Devices that can be asked for, named as on the command line. */
    enum DeviceChoice {
        cpu,
        cuda,
        auto
    }

    @Option(
            names = "--data",
            required = true,
            arity = "1..*",
            paramLabel = "PATH",
            description = "Text files, and folders that are read with all files below, but for hidden ones.")
    private List<Path> data;

    @Option(names = "--allow-binary", description = "Take files that hold NUL bytes.")
    private boolean allowBinary;

    @Mixin
    private RankOptions rankOptions;

    @Option(
            names = "--device",
            paramLabel = "DEVICE",
            defaultValue = "auto",
            description =
                    "${COMPLETION-CANDIDATES}: where to compute; auto is cuda where there is a GPU for every rank "
                            + "(${DEFAULT-VALUE}).")
    private DeviceChoice device;

    @Mixin
    private TrainOptions options;

    @Option(
            names = "--loss-log",
            paramLabel = "FILE",
            description = "Also write {\"step\":..,\"loss\":..} for every step, a line each.")
    private Path lossLog;

    @Option(
            names = "--inject",
            paramLabel = "FAULT@RANK:STEP",
            description = "Make a rank fail before a step, to see how the job ends: kill, hang, throw, slow or desync. "
                    + "May be given again, or as KCP_INJECT, split at spaces.")
    private List<String> injected = List.of();

    @Option(
            names = "--threads",
            defaultValue = "1",
            paramLabel = "N",
            description = "Threads of each rank; more than one pays on an idle machine only (${DEFAULT-VALUE}).")
    private int threads;

    // Set by the launching process: a rank's own stdout is a pipe even where it ends in a terminal.
    @Option(names = "--terminal", hidden = true)
    private boolean terminal;

    // Set by the launching process, which saw whether there is a GPU for each rank.
    @Option(names = "--chosen-device", hidden = true)
    private DeviceChoice chosenDevice;

    @Spec
    private CommandSpec spec;

    private final Map<String, String> environment;

    /** @param environment where a launcher says which rank this is */
    TrainCommand(Map<String, String> environment) {
        this.environment = environment;
    }

    @Override
    public Integer call() {
        TrainConfig config = options.config();
        Optional<RankInfo> me = RankInfo.fromEnvironment(environment);
        int ranks = rankOptions.ranks(me, () -> 1);
        Duration deadline = rankOptions.deadline();
        List<Injection> faults = faults(config, ranks);
        checkThreads();
        boolean cuda = usesCuda(me, ranks);
        TextCorpus corpus = TextCorpus.read(data, allowBinary);
        if (me.isPresent()) {
            Announcement.print(me.get(), environment);
        } else if (ranks > 1) {
            return LocalAgent.run(LaunchSpec.workers(ranks, workerArguments(cuda)))
                    .exitCode();
        }
        try (TrainRank rank =
                cuda ? TrainRank.onCuda(me, environment, deadline) : TrainRank.onCpu(me, threads, deadline)) {
            if (me.isPresent()) {
                CallLog.watch(environment, rank.communicator());
            }
            return train(config, corpus, rank, faults);
        }
    }

    /** Whether this job's ranks compute on GPUs; the process that starts them decides for all. */
    private boolean usesCuda(Optional<RankInfo> me, int ranks) {
        int local = me.map(RankInfo::localWorldSize).orElse(ranks);
        DeviceChoice choice = chosenDevice == null ? device : chosenDevice;
        boolean cuda = choice == DeviceChoice.cuda
                || choice == DeviceChoice.auto && TrainRank.hasGpus(me.isPresent() ? 1 : local, environment);
        if (cuda && me.isEmpty()) {
            TrainRank.requireCuda(local, environment);
        }
        return cuda;
    }

    private void checkThreads() {
        if (threads < 1 || threads > MAX_THREADS) {
            throw new IllegalArgumentException("threads must be from 1 to " + MAX_THREADS + ": threads=" + threads);
        }
    }

    /** The command line as it was typed: every rank reads the same options as this process did. */
    private List<String> workerArguments(boolean cuda) {
        List<String> arguments =
                new ArrayList<>(spec.root().commandLine().getParseResult().originalArgs());
        arguments.add("--chosen-device=" + (cuda ? DeviceChoice.cuda : DeviceChoice.cpu));
        if (isTerminal()) {
            arguments.add("--terminal");
        }
        return arguments;
    }

    private static boolean isTerminal() {
        Console console = System.console();
        return console != null && console.isTerminal();
    }

    private List<Injection> faults(TrainConfig config, int ranks) {
        String variable = environment.getOrDefault("KCP_INJECT", "").strip();
        return Injection.parse(
                injected.isEmpty() && !variable.isEmpty() ? List.of(variable.split("\\s+")) : injected,
                ranks,
                config.steps());
    }

    private int train(TrainConfig config, TextCorpus corpus, TrainRank rank, List<Injection> faults) {
        Communicator communicator = rank.communicator();
        TrainSummary summary;
        try (Progress progress = progress(communicator.rank(), config.steps());
                LossLog log = lossLog == null || communicator.rank() > 0 ? null : new LossLog(lossLog)) {
            TrainListener shown = log == null ? progress : both(progress, log);
            // Every rank is told of every step, so what comes after one comes before the next.
            TrainListener listener = faults.isEmpty()
                    ? shown
                    : both(shown, (step, loss, speed) -> Injection.before(step + 1, faults, communicator));
            Injection.before(1, faults, communicator);
            summary = new TrainLoop(config, corpus, communicator, rank.engine()).run(listener);
        } catch (RuntimeException failure) {
            communicator.abort(failure.toString());
            throw failure;
        }
        if (communicator.rank() == 0) {
            System.out.println(summary.toJson());
        }
        return ExitCode.DONE;
    }

    private Progress progress(int rank, int steps) {
        Progress.Style shown = terminal || isTerminal() ? Progress.Style.BAR : Progress.Style.LINES;
        return Progress.of(rank == 0 ? shown : Progress.Style.NONE, steps, System.out);
    }

    private static TrainListener both(TrainListener first, TrainListener second) {
        return (step, loss, tokensPerSecond) -> {
            first.onStep(step, loss, tokensPerSecond);
            second.onStep(step, loss, tokensPerSecond);
        };
    }
}
