package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.bench.BenchFiles;
import dev.kcp.bench.BenchHtml;
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
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
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
            "Times the single-rank op. The floor is the least bytes it must move (forward 4, backward 6 per element) at "
                    + "the speed of a plain copy in the same run; the ratio is the median time over the floor.",
            "Prints a table; --json writes the same as JSON, --report draws it. With --report and files in OP's place "
                    + "nothing is timed: the files are what --json wrote before."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp bench forward",
            "  kcp bench backward --shapes 8192x4096x16,32768x1024 --json backward.json",
            "  kcp bench --report report.html forward.json backward.json"
        })
final class BenchCommand implements Callable<Integer> {
    /** What can be timed. */
    enum Op {
        FORWARD,
        BACKWARD
    }

    @Parameters(
            arity = "1..*",
            paramLabel = "OP",
            description = "forward or backward; with --report, JSON files of earlier runs instead.")
    private List<String> operands;

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

    @Option(
            names = "--report",
            paramLabel = "FILE",
            description = "Also write an HTML page here: tables, and bars against the floor.")
    private Path html;

    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        Optional<Op> op = op();
        if (op.isPresent()) {
            time(op.get());
            return ExitCode.DONE;
        }
        write(
                "report",
                html,
                BenchHtml.write(operands.stream()
                        .map(file -> BenchFiles.read(Path.of(file)))
                        .toList()));
        return ExitCode.DONE;
    }

    /** What to time, or empty where files are to be shown. */
    private Optional<Op> op() {
        Optional<Op> op = Stream.of(Op.values())
                .filter(one -> one.name().equalsIgnoreCase(operands.getFirst()))
                .findFirst();
        if (op.isPresent() && operands.size() > 1) {
            throw new ParameterException(spec.commandLine(), "one operation, and no files beside it: OP=" + operands);
        }
        if (op.isEmpty() && html == null) {
            throw new ParameterException(
                    spec.commandLine(),
                    "no such operation, choose forward or backward; files need --report: OP=" + operands.getFirst());
        }
        if (op.isEmpty() && json != null) {
            throw new ParameterException(spec.commandLine(), "--json needs an operation to time: json=" + json);
        }
        return op;
    }

    private void time(Op op) {
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
            write("json", json, report.toJson() + "\n");
        }
        if (html != null) {
            write("report", html, BenchHtml.write(List.of(report)));
        }
    }

    private static void write(String option, Path path, String text) {
        try {
            Files.writeString(path, text);
        } catch (IOException e) {
            throw new KcpException(KcpException.Code.BAD_DATA, "cannot be written: " + option + "=" + path, e);
        }
    }
}
