package dev.kcp.launcher;

import dev.kcp.comm.RankInfo;
import dev.kcp.train.HeldOutText;
import dev.kcp.train.Progress;
import dev.kcp.train.Saving;
import dev.kcp.train.TextCorpus;
import dev.kcp.train.TrainConfig;
import java.io.Console;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
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
            "Documents are shuffled anew in each epoch, by --seed, and packed end to end into batches of exactly "
                    + "--tokens tokens. One that does not fit is cut; its rest begins the next batch as a document of "
                    + "its own, so no token is left out or padded, and an epoch's last batch is filled by the next "
                    + "epoch. Every world size sees the same batches. The last line on stdout is a JSON summary; its "
                    + "first_loss and final_loss are the losses of the first and the last batch in nats per byte, "
                    + "each before that step's update.",
            "Started by kcp run, torchrun, mpirun, srun or as a Kubernetes indexed job, this process is one rank."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp train --data book.txt --world 2",
            "  kcp train --data texts/ more.txt --world 4 --layout zigzag --steps 1000",
            "  kcp train --data book.txt --save run1 --every 50 --resume",
            "  kcp train --data texts/ --held-out other.txt --held-out-every 50",
            "",
            "Exit codes: 0 done, 2 usage, 3 bad input or unwritable output, 4 rendezvous, 5 a rank failed,",
            "6 deadline, 7 ranks disagree or a verified step differs, 8 missing device or library,",
            "130/143 interrupted/terminated, with --save after the state was saved."
        })
final class TrainCommand implements Callable<Integer> {
    private static final int MAX_THREADS = 1024;

    /** How long a rank that was told to end may take to finish its step and save. */
    private static final Duration SAVE_PATIENCE = Duration.ofSeconds(25);

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

    @Option(
            names = "--documents",
            paramLabel = "HOW",
            defaultValue = "blank-line",
            description = "blank-line or file: what separates documents (${DEFAULT-VALUE}).")
    private String documents;

    @Option(names = "--allow-binary", description = "Take files that hold NUL bytes.")
    private boolean allowBinary;

    @Mixin
    private HeldOutOptions heldOutOptions;

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
            description =
                    "Also write {\"step\":..,\"loss\":..} for every step, a line each, with \"held_out_loss\" where there "
                            + "is one.")
    private Path lossLog;

    @Mixin
    private SaveOptions saveOptions;

    @Mixin
    private ReportOptions reportOptions;

    @Option(
            names = "--verify",
            description = "Compare each step's convolutions and gradients with a run on one rank, which every rank "
                    + "makes too; end at the first difference.")
    private boolean verify;

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
        OptionRange.within("--threads", threads, 1, MAX_THREADS);
        boolean cuda = usesCuda(me, ranks);
        TextCorpus.Documents separated = documentsBy();
        Optional<Saving> checked = saveOptions.saving(() -> false);
        if (!isOtherRank(me)) {
            reportOptions.check();
            OutputFile.require("loss-log", lossLog);
        }
        Map<String, Path> outputs = outputs();
        Consumer<String> notes = isOtherRank(me) || chosenDevice != null ? note -> {} : Main::note;
        TextCorpus corpus = TextCorpus.read(data, allowBinary, separated, outputs, notes);
        HeldOutText heldOut =
                heldOutOptions.text(allowBinary, separated, outputs, notes).orElse(null);
        if (heldOut != null) {
            heldOut.tellLearnt(corpus, notes);
        }
        Progress.Style progress = terminal || isTerminal() ? Progress.Style.BAR : Progress.Style.LINES;
        TrainJob job = new TrainJob(config, corpus, heldOut, verify, faults, lossLog, reportOptions, progress);
        if (me.isPresent()) {
            Announcement.print(me.get(), environment);
            try (StopRequest stop = stopRequest(checked);
                    TrainRank rank = open(cuda, me, deadline)) {
                CallLog.watch(environment, rank.communicator());
                return job.run(rank, saving(stop));
            }
        }
        checked.ifPresent(saving -> saving.check(config, corpus));
        if (ranks > 1) {
            LaunchSpec workers = LaunchSpec.workers(ranks, workerArguments(cuda));
            return LocalAgent.run(checked.isPresent() ? workers.withGrace(SAVE_PATIENCE.plusSeconds(5)) : workers)
                    .exitCode();
        }
        try (StopRequest stop = stopRequest(checked);
                TrainRank rank = open(cuda, me, deadline)) {
            return job.run(rank, saving(stop));
        }
    }

    private TrainRank open(boolean cuda, Optional<RankInfo> me, Duration deadline) {
        return cuda ? TrainRank.onCuda(me, environment, deadline) : TrainRank.onCpu(me, threads, deadline);
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

    /** Null where nothing is saved, so that a signal ends the process at once. */
    private static StopRequest stopRequest(Optional<Saving> saving) {
        return saving.isPresent() ? new StopRequest(SAVE_PATIENCE) : null;
    }

    private Saving saving(StopRequest stop) {
        return stop == null ? null : saveOptions.saving(stop::isAsked).orElseThrow();
    }

    /** What this command writes, which is no text to read. */
    private Map<String, Path> outputs() {
        Map<String, Path> outputs = reportOptions.outputs();
        outputs.put("save", saveOptions.folder());
        outputs.put("loss-log", lossLog);
        outputs.values().removeIf(Objects::isNull);
        return outputs;
    }

    /** Whether another rank than this process writes what the job leaves. */
    private static boolean isOtherRank(Optional<RankInfo> me) {
        return me.isPresent() && me.get().rank() > 0;
    }

    private TextCorpus.Documents documentsBy() {
        return switch (documents) {
            case "blank-line" -> TextCorpus.Documents.BLANK_LINE;
            case "file" -> TextCorpus.Documents.FILE;
            default ->
                throw new IllegalArgumentException("--documents must be blank-line or file: documents=" + documents);
        };
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
}
