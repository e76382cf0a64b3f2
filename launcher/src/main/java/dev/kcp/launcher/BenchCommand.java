package dev.kcp.launcher;

import dev.kcp.bench.BenchFiles;
import dev.kcp.bench.BenchHtml;
import dev.kcp.bench.BenchReport;
import dev.kcp.bench.BenchShape;
import dev.kcp.bench.ConvPass;
import dev.kcp.bench.CpuBench;
import dev.kcp.bench.CudaBench;
import dev.kcp.comm.RankInfo;
import dev.kcp.conv.ConvOptions;
import dev.kcp.core.Layout;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code kcp bench}: times an op against the memory floor of the same run. */
@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        sortOptions = false,
        description = {
            "Times the convolution and what its halo costs.",
            "forward and backward time the single-rank op. The floor is the time of a plain copy in the same run of the "
                    + "least bytes that the op must move (forward 4, backward 6 per element); the ratio is the median "
                    + "time over the floor.",
            "step times one layer over --world ranks against the single-rank op of as many tokens in the same run; S of "
                    + "--shapes is one rank's share. exchange times a halo exchange with the next rank against a copy of "
                    + "as many bytes. Both with ranks as threads, processes (--transport tcp) or GPUs (nccl).",
            "train times whole steps of the trainer, and in the same run steps whose exchanges move nothing: halo-hollow "
                    + "(the floor) without halo rows, exchanges-hollow without gradients' sums too. These compute nonsense "
                    + "and only show what the exchanges cost.",
            "Prints a table; --json writes the same as JSON, --report draws it. With --report and files in OP's place "
                    + "nothing is timed: the files are what --json wrote before."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp bench forward",
            "  kcp bench backward --shapes 8192x4096x16,32768x1024 --json backward.json",
            "  kcp bench step --world 4 --shapes 2048x1024",
            "  kcp bench exchange --transport tcp",
            "  kcp bench train --world 2 --layers 2 --shapes 1024x128x8",
            "  kcp bench --report report.html forward.json backward.json"
        })
final class BenchCommand implements Callable<Integer> {
    private static final String SHAPES = "8192x4096x16,8192x4096x1,16384x1024x1";
    private static final String TRAIN_SHAPES = "1024x256x8";

    /** What can be timed. */
    enum Op {
        FORWARD,
        BACKWARD,
        STEP,
        EXCHANGE,
        TRAIN;

        boolean isOfRanks() {
            return this == STEP || this == EXCHANGE || this == TRAIN;
        }
    }

    @Parameters(
            arity = "1..*",
            paramLabel = "OP",
            description =
                    "forward, backward, step, exchange or train; with --report, JSON files of earlier runs instead.")
    private List<String> operands;

    private Op op;

    @Mixin
    private OpOptions opOptions;

    @Option(
            names = "--shapes",
            split = ",",
            paramLabel = "SxCxDOCUMENTS",
            description = "Shapes, separated by commas (" + SHAPES + "; train: " + TRAIN_SHAPES + ").")
    private List<String> shapes;

    @Mixin
    private RankOptions rankOptions;

    @Option(
            names = "--transport",
            paramLabel = "TRANSPORT",
            description =
                    "step, exchange and train: local, tcp or nccl (default: nccl with --device cuda, else local).")
    private Transport transport;

    @Option(
            names = "--layout",
            defaultValue = "contiguous",
            paramLabel = "LAYOUT",
            description = "step and train: contiguous, zigzag or zigzagPerDocument (${DEFAULT-VALUE}).")
    private String layout;

    @Option(
            names = "--sizes",
            split = ",",
            defaultValue = "24576,1048576",
            paramLabel = "BYTES",
            description = "exchange: bytes that each rank sends (${DEFAULT-VALUE}).")
    private List<Long> sizes;

    @Mixin
    private TrainBenchOptions trainOptions;

    @Option(names = "--threads", paramLabel = "N", description = "CPU threads (default: all cores).")
    private Integer threads;

    @Option(
            names = "--iterations",
            defaultValue = "15",
            paramLabel = "N",
            description = "Timed runs of each shape (${DEFAULT-VALUE}).")
    private int iterations;

    @Option(names = "--json", paramLabel = "FILE", description = "Also write the report here.")
    private Path json;

    @Option(
            names = "--report",
            paramLabel = "FILE",
            description = "Also write an HTML page here: numbers, and bars against the floor.")
    private Path html;

    @Spec
    private CommandSpec spec;

    private final Map<String, String> environment;

    BenchCommand(Map<String, String> environment) {
        this.environment = environment;
    }

    @Override
    public Integer call() {
        op = op().orElse(null);
        if (op == null) {
            List<BenchReport> reports = operands.stream()
                    .map(file -> BenchFiles.read(Main.path(file)))
                    .toList();
            OutputFile.write("report", html, BenchHtml.write(reports));
            return ExitCode.DONE;
        }
        OutputFile.require("json", json);
        OutputFile.require("report", html);
        OptionRange.atLeast("--iterations", iterations, 1);
        if (threads != null) {
            OptionRange.atLeast("--threads", threads, 1);
        }
        for (long bytes : sizes) {
            if (bytes < Float.BYTES || bytes % Float.BYTES != 0) {
                throw new IllegalArgumentException("--sizes must be positive multiples of 4 bytes: size=" + bytes);
            }
        }
        List<String> texts = shapes != null ? shapes : List.of((op == Op.TRAIN ? TRAIN_SHAPES : SHAPES).split(","));
        List<BenchShape> parsed = texts.stream().map(BenchShape::parse).toList();
        ConvOptions options = opOptions.options(false);
        return op.isOfRanks() ? ofRanks(parsed, options) : ofOneRank(parsed, options);
    }

    private int ofOneRank(List<BenchShape> parsed, ConvOptions options) {
        ConvPass pass = op == Op.BACKWARD ? ConvPass.BACKWARD : ConvPass.FORWARD;
        BenchReport report;
        if (opOptions.wantsCuda()) {
            CudaBench bench = new CudaBench(0, iterations, options);
            report = bench.run(pass, parsed, Version.commit());
            System.out.printf(Locale.ROOT, "host cost of one call: %.1f us%n", bench.hostMicroseconds(pass));
        } else {
            report = new CpuBench(cpuThreads(1), iterations, options).run(pass, parsed, Version.commit());
        }
        print(report);
        return ExitCode.DONE;
    }

    private int cpuThreads(int ranksOnThisHost) {
        return threads != null ? threads : Math.max(1, Runtime.getRuntime().availableProcessors() / ranksOnThisHost);
    }

    private int ofRanks(List<BenchShape> parsed, ConvOptions options) {
        Optional<RankInfo> me = RankInfo.fromEnvironment(environment);
        int ranks = rankOptions.ranks(me, () -> 2);
        boolean gpus = opOptions.wantsCuda() || transport == Transport.NCCL;
        RankBench bench = new RankBench(
                op, parsed, sizes, Layout.parse(layout), options, trainOptions, iterations, this::cpuThreads);
        BenchReport report;
        if (me.isPresent()) {
            report = bench.onRank(me.get(), new RankRun(environment, rankOptions.deadline()), gpus);
        } else if (gpus || transport == Transport.TCP) {
            return LocalAgent.run(LaunchSpec.workers(
                            ranks, spec.root().commandLine().getParseResult().originalArgs()))
                    .exitCode();
        } else {
            report = bench.onThreads(ranks, rankOptions.deadline());
        }
        if (me.isEmpty() || me.get().rank() == 0) {
            print(report);
        }
        return ExitCode.DONE;
    }

    private void print(BenchReport report) {
        System.out.print(report.toTable());
        if (json != null) {
            OutputFile.write("json", json, report.toJson() + "\n");
        }
        if (html != null) {
            OutputFile.write("report", html, BenchHtml.write(List.of(report)));
        }
    }

    /** What to time, or empty where files are to be shown. */
    private Optional<Op> op() {
        Optional<Op> named = Stream.of(Op.values())
                .filter(one -> one.name().equalsIgnoreCase(operands.getFirst()))
                .findFirst();
        String wrong = null;
        if (named.isPresent() && operands.size() > 1) {
            wrong = "one run times one operation; leave out the rest: OP=" + operands;
        } else if (named.isEmpty() && html == null) {
            wrong =
                    "no such operation, choose forward, backward, step, exchange or train (or with --report FILE, files to draw): OP="
                            + operands.getFirst();
        } else if (named.isEmpty() && json != null) {
            wrong = "--json needs an operation to time: json=" + json;
        }
        if (wrong != null) {
            throw new ParameterException(spec.commandLine(), wrong);
        }
        return named;
    }
}
