package dev.kcp.launcher;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.comm.RankInfo;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
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
            "Exit codes: 0 done, 1 the files compared differ, 2 usage, 3 bad input or unwritable output, 4 rendezvous,",
            "5 a rank failed, 6 deadline, 7 ranks disagree, 8 missing device or library."
        })
final class ConvCommand implements Callable<Integer> {
    /** Types of dweight and dbias that can be asked for. */
    enum GradientType {
        FP32,
        PARAM
    }

    /** Up to here a run is over before vector code would have been compiled. */
    private static final long SCALAR_ELEMENTS = 1 << 20;

    private static final int FIRST_GPU = 0;

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

    @Mixin
    private PartitionOptions cut;

    @Option(
            names = "--transport",
            paramLabel = "TRANSPORT",
            description = "local: ranks are threads; tcp: processes; nccl: GPUs (default: local).")
    private Transport transport;

    @Mixin
    private OpOptions op;

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
        cut.check();
        Duration deadline = rankOptions.deadline();
        refuseMissingDevices(ranks);
        OutputFile.require("out", out);
        if (isSameFile(in, out)) {
            throw new IllegalArgumentException("--out would overwrite the file of --in: in=" + in + " out=" + out);
        }
        try (ConvInput input = ConvInput.open(in, backward, slack)) {
            ConvJob job = new ConvJob(
                    input,
                    out,
                    cut.partition(input.cuSeqlens(), ranks),
                    cut.label(),
                    op.options(slack),
                    backward,
                    handle,
                    gradientType == GradientType.PARAM ? null : DType.F32);
            boolean onOneGpu = op.wantsCuda() && transport != Transport.NCCL;
            boolean ofProcesses = transport == Transport.TCP || transport == Transport.NCCL;
            if (me.isEmpty() && ofProcesses && !onOneGpu) {
                return LocalAgent.run(LaunchSpec.workers(ranks, originalArguments()))
                        .exitCode();
            }
            String summary = onOneGpu
                    ? onOneGpu(job, deadline)
                    : me.isPresent() ? ofRank(job, me.get(), deadline) : ofThreads(job, ranks, deadline);
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
        int ranks = rankOptions.ranks(me, cut::ranks);
        if (me.isPresent() && transport == Transport.LOCAL) {
            throw new IllegalArgumentException("ranks of a launcher are processes; leave out --transport local: RANK="
                    + me.get().rank());
        }
        return ranks;
    }

    private void refuseMissingDevices(int ranks) {
        if (transport == Transport.NCCL) {
            NcclLibrary.require(environment);
        } else if (op.wantsCuda() && ranks > 1) {
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

    private static String onOneGpu(ConvJob job, Duration deadline) {
        try (CudaConvEngine engine = CudaConvEngine.open(FIRST_GPU);
                Communicator alone = LocalCommunicator.group(1, deadline).getFirst()) {
            return job.run(alone, engine);
        }
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
