package dev.kcp.launcher;

import dev.kcp.comm.LocalRanks;
import dev.kcp.comm.RankInfo;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.nccl.NcclLibrary;
import dev.kcp.tensor.DType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code kcp conv}: one convolution on a file, sharded over ranks. */
@Command(
        name = "conv",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        sortOptions = false,
        description = {
            "Runs the causal convolution with SiLU on a safetensors file, sharded over N ranks.",
            "Reads x (BF16 [S,C]), weight (FP32 or BF16 [C,4]), cu_seqlens (INT32), and where they are there bias and "
                    + "dy; other tensors are ignored. Writes y and with --backward dx, dweight and dbias in batch "
                    + "order. Any number of ranks and any layout give the same bits of y and dx.",
            "The last line on stdout is a JSON summary."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp conv --in case.safetensors --out result.safetensors --backward",
            "  kcp conv --in case.safetensors --out result.safetensors --backward --world 4 --layout zigzag --handle",
            "  kcp conv --compare result.safetensors other.safetensors",
            "",
            "Exit codes: 0 done, 1 the files compared differ, 2 usage, 3 bad input data, 4 rendezvous, 5 a rank failed,",
            "6 deadline, 7 ranks disagree, 8 missing device or library."
        })
final class ConvCommand implements Callable<Integer> {
    /** How ranks talk. */
    enum Transport {
        LOCAL,
        TCP,
        NCCL
    }

    /** Where to compute. */
    enum DeviceChoice {
        CPU,
        CUDA
    }

    /** Types of dweight and dbias that can be asked for. */
    enum GradientType {
        FP32,
        PARAM
    }

    /** Up to here a run is over before vector code would have been compiled. */
    private static final long SCALAR_ELEMENTS = 1 << 20;

    @Option(names = "--in", paramLabel = "FILE", description = "Safetensors file to read.")
    private Path in;

    @Option(names = "--out", paramLabel = "FILE", description = "Safetensors file to write.")
    private Path out;

    @Option(
            names = "--compare",
            arity = "2",
            paramLabel = "FILE",
            description = "Compute nothing: compare two safetensors files bit by bit, tell the first difference and "
                    + "statistics; exit code 1 if they differ.")
    private List<Path> compare;

    @Option(names = "--backward", description = "Compute gradients too, from dy.")
    private boolean backward;

    @Option(
            names = "--handle",
            description = "With --backward: drop what forward saved and recompute it, without a second exchange.")
    private boolean handle;

    @Mixin
    private RankOptions rankOptions;

    @Option(
            names = "--layout",
            defaultValue = "contiguous",
            paramLabel = "LAYOUT",
            description = "contiguous, zigzag or zigzagPerDocument (${DEFAULT-VALUE}).")
    private String layout;

    @Option(
            names = "--fragments",
            paramLabel = "FILE",
            description = "JSON instead of a layout: for every rank its list of [document, offset, length]; without "
                    + "--world, as many ranks as lists.")
    private Path fragments;

    @Option(
            names = "--align",
            defaultValue = "1",
            paramLabel = "N",
            description = "Cut at multiples of N tokens; 64 fixes the bits of dweight for all N (${DEFAULT-VALUE}).")
    private int align;

    @Option(
            names = "--transport",
            paramLabel = "TRANSPORT",
            description = "local: ranks are threads; tcp: processes; nccl: GPUs (default: local).")
    private Transport transport;

    @Option(
            names = "--device",
            defaultValue = "cpu",
            paramLabel = "DEVICE",
            description = "cpu or cuda (${DEFAULT-VALUE}).")
    private DeviceChoice device;

    @Option(
            names = "--policy",
            defaultValue = "bf16",
            paramLabel = "POLICY",
            description = "bf16 or fp32: the preactivation that SiLU's derivative is taken at (${DEFAULT-VALUE}).")
    private SiluGradPolicy policy;

    @Option(
            names = "--math",
            defaultValue = "fast",
            paramLabel = "MATH",
            description = "fast, or portable: the same bits on every device (${DEFAULT-VALUE}).")
    private ConvMath math;

    @Option(names = "--slack", description = "Accept rows of x after the last document; they give zeros.")
    private boolean slack;

    @Option(
            names = "--grad-dtype",
            defaultValue = "fp32",
            paramLabel = "TYPE",
            description = "fp32, or param: dweight and dbias in their parameters' types (${DEFAULT-VALUE}).")
    private GradientType gradientType;

    @Spec
    private CommandSpec spec;

    private final Map<String, String> environment;

    ConvCommand(Map<String, String> environment) {
        this.environment = environment;
    }

    @Override
    public Integer call() {
        if (compare != null) {
            return compare();
        }
        requireFiles();
        if (handle && !backward) {
            throw new IllegalArgumentException(
                    "--handle needs --backward, which recomputes: handle=true backward=false");
        }
        Optional<RankInfo> me = RankInfo.fromEnvironment(environment);
        int ranks = ranks(me);
        OptionRange.atLeast("--align", align, 1);
        ConvInput.refuseLayoutBeside(fragments, spec.commandLine().getParseResult());
        Duration deadline = rankOptions.deadline();
        Layout rule = Layout.parse(layout);
        refuseMissingDevices(ranks);
        OutputFile.require("out", out);
        if (isSameFile(in, out)) {
            throw new IllegalArgumentException("--out would overwrite the file of --in: in=" + in + " out=" + out);
        }
        try (ConvInput input = ConvInput.open(in, backward, slack)) {
            Partition partition = fragments == null ? input.partition(rule, ranks, align) : input.partition(fragments);
            if (partition.ranks() != ranks) {
                throw new IllegalArgumentException("--fragments has lists for another number of ranks: lists="
                        + partition.ranks() + " world=" + ranks);
            }
            ConvOptions options = new ConvOptions(policy, math, slack);
            DType gradients = gradientType == GradientType.PARAM ? null : DType.F32;
            boolean processes = transport == Transport.TCP || transport == Transport.NCCL;
            if (device == DeviceChoice.CUDA && transport != Transport.NCCL) {
                System.out.println(new CudaConvJob(input, options, backward, handle, gradients).run(out));
                return ExitCode.DONE;
            }
            if (me.isEmpty() && processes) {
                return LocalAgent.run(LaunchSpec.workers(ranks, originalArguments()))
                        .exitCode();
            }
            ConvJob job = new ConvJob(
                    input,
                    out,
                    partition,
                    fragments == null ? rule.label() : "fragments",
                    options,
                    backward,
                    handle,
                    gradients);
            String summary = me.isPresent() ? ofRank(job, me.get(), deadline) : ofThreads(job, ranks, deadline);
            if (summary != null) {
                System.out.println(summary);
            }
            return ExitCode.DONE;
        }
    }

    private int compare() {
        if (compare.size() != 2 || in != null || out != null) {
            throw new IllegalArgumentException("--compare takes two files and neither --in nor --out: files=" + compare
                    + " in=" + in + " out=" + out);
        }
        FileComparison comparison = FileComparison.of(compare.getFirst(), compare.getLast());
        System.out.print(comparison.text());
        return comparison.isEqual() ? ExitCode.DONE : ExitCode.FAILED;
    }

    private void requireFiles() {
        if (in == null || out == null) {
            List<String> missing = Stream.of(in == null ? "'--in=FILE'" : null, out == null ? "'--out=FILE'" : null)
                    .filter(Objects::nonNull)
                    .toList();
            throw new ParameterException(spec.commandLine(), "Missing required options: " + String.join(", ", missing));
        }
    }

    private static boolean isSameFile(Path one, Path other) {
        try {
            return Files.isSameFile(one, other);
        } catch (IOException e) {
            return false; // one of them does not exist
        }
    }

    private int ranks(Optional<RankInfo> me) {
        int ranks = rankOptions.ranks(
                me,
                () -> fragments == null ? 1 : ConvInput.readFragments(fragments).size());
        if (me.isPresent() && transport == Transport.LOCAL) {
            throw new IllegalArgumentException("ranks of a launcher are processes; leave out --transport local: RANK="
                    + me.get().rank());
        }
        return ranks;
    }

    private void refuseMissingDevices(int ranks) {
        if (transport == Transport.NCCL) {
            NcclLibrary.require(environment);
            device = DeviceChoice.CUDA;
        } else if (device == DeviceChoice.CUDA && ranks > 1) {
            throw new IllegalArgumentException("GPUs of several ranks are connected by --transport nccl: transport="
                    + transport + " world=" + ranks);
        }
    }

    private List<String> originalArguments() {
        return spec.root().commandLine().getParseResult().originalArgs();
    }

    private String ofRank(ConvJob job, RankInfo me, Duration deadline) {
        Announcement.print(me, environment);
        RankRun run = new RankRun(environment, deadline);
        return transport == Transport.NCCL
                ? run.onGpu(me, job::run)
                : run.onCpu(me, engine(job, me.localWorldSize()), job::run);
    }

    private String ofThreads(ConvJob job, int ranks, Duration deadline) {
        return LocalRanks.run(ranks, deadline, communicator -> {
                    try (CpuConvEngine engine = engine(job, ranks)) {
                        return job.run(communicator, engine);
                    }
                })
                .getFirst();
    }

    private static CpuConvEngine engine(ConvJob job, int ranksOnThisHost) {
        int threads = Math.max(1, Runtime.getRuntime().availableProcessors() / ranksOnThisHost);
        return new CpuConvEngine(threads, job.elements() > SCALAR_ELEMENTS);
    }
}
