package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.bench.BenchReport;
import dev.kcp.bench.BenchShape;
import dev.kcp.bench.CpuBench;
import dev.kcp.bench.CudaBench;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code kcp bench}: times an op against the memory floor of the same run. */
@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        sortOptions = false,
        description = {
            "Times the single-rank op. The floor is the least bytes it must move (forward 4, backward 6 per element) at "
                    + "the speed of a plain copy in the same run; the ratio is the median time over the floor.",
            "Prints a table; --json writes the same as JSON."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  kcp bench forward", "  kcp bench backward --shapes 8192x4096x16,32768x1024 --json backward.json"})
final class BenchCommand implements Callable<Integer> {
    /** What can be timed. */
    enum Op {
        FORWARD,
        BACKWARD
    }

    @Parameters(paramLabel = "OP", description = "forward or backward")
    private Op op;

    @Option(
            names = "--device",
            defaultValue = "cpu",
            paramLabel = "DEVICE",
            description = "cpu or cuda (${DEFAULT-VALUE}).")
    private ConvCommand.DeviceChoice device;

    @Option(
            names = "--shapes",
            split = ",",
            defaultValue = "8192x4096x16,8192x4096x1,16384x1024x1",
            paramLabel = "SxCxDOCUMENTS",
            description = "Shapes, separated by commas (${DEFAULT-VALUE}).")
    private List<String> shapes;

    @Option(names = "--threads", paramLabel = "N", description = "CPU threads (default: all cores).")
    private Integer threads;

    @Option(
            names = "--iterations",
            defaultValue = "15",
            paramLabel = "N",
            description = "Timed runs of each shape (${DEFAULT-VALUE}).")
    private int iterations;

    @Option(names = "--policy", defaultValue = "bf16", paramLabel = "POLICY", description = "bf16 or fp32.")
    private SiluGradPolicy policy;

    @Option(names = "--math", defaultValue = "fast", paramLabel = "MATH", description = "fast or portable.")
    private ConvMath math;

    @Option(names = "--json", paramLabel = "FILE", description = "Also write the report here.")
    private Path json;

    @Override
    public Integer call() {
        List<BenchShape> parsed = shapes.stream().map(BenchShape::parse).toList();
        ConvOptions options = new ConvOptions(policy, math, false);
        BenchReport report;
        if (device == ConvCommand.DeviceChoice.CUDA) {
            CudaBench bench = new CudaBench(0, iterations, options);
            report = bench.run(op == Op.BACKWARD, parsed, Version.commit());
            System.out.printf(
                    Locale.ROOT, "host cost of one call: %.1f us%n", bench.hostMicroseconds(op == Op.BACKWARD));
        } else {
            int cpuThreads = threads == null ? Runtime.getRuntime().availableProcessors() : threads;
            report = new CpuBench(cpuThreads, iterations, options).run(op == Op.BACKWARD, parsed, Version.commit());
        }
        System.out.print(report.toTable());
        if (json != null) {
            try {
                Files.writeString(json, report.toJson() + "\n");
            } catch (IOException e) {
                throw new KcpException(KcpException.Code.BAD_DATA, "cannot be written: json=" + json, e);
            }
        }
        return ExitCode.DONE;
    }
}
