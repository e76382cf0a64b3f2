package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.core.CuSeqlens;
import dev.kcp.plan.PlanJson;
import dev.kcp.plan.PlanReport;
import dev.kcp.plan.PlanSvg;
import dev.kcp.plan.PlanText;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code kcp plan}: who owns which tokens, and which rows travel, before anything is computed. */
@Command(
        name = "plan",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        sortOptions = false,
        description = {
            "Shows how a packed batch is cut over ranks: fragments, the rows that travel between them, bytes, balance.",
            "Numbers are for one layer; they come from the plan that training uses. --svg draws it."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp plan --lengths 100,156 --world 2 --align 64 --channels 64",
            "  kcp plan --lengths 4096x30,131072 --world 8 --layout zigzag --svg plan.svg",
            "  kcp plan --cu-seqlens case.safetensors --world 4 --json plan.json",
            "",
            "Exit codes: 0 done, 2 usage, 3 bad input or unwritable output."
        })
final class PlanCommand implements Callable<Integer> {
    private static final int MOST_DOCUMENTS = 10_000_000;

    @Option(
            names = "--lengths",
            split = ",",
            paramLabel = "N[xCOUNT]",
            description = "Tokens of each document, separated by commas; 512x100 is a hundred documents of 512.")
    private List<String> lengths;

    @Option(
            names = "--cu-seqlens",
            paramLabel = "FILE",
            description = "Instead: a safetensors file with the INT32 tensor cu_seqlens.")
    private Path cuSeqlensFile;

    @Option(
            names = "--world",
            paramLabel = "N",
            description = "Ranks (default: 1, or as many as --fragments has lists).")
    private Integer world;

    @Mixin
    private PartitionOptions cut;

    @Option(
            names = "--channels",
            defaultValue = "1024",
            paramLabel = "C",
            description = "Channels of the layer, for the bytes (${DEFAULT-VALUE}).")
    private int channels;

    @Option(names = "--json", paramLabel = "FILE", description = "Also write all of it as JSON.")
    private Path json;

    @Option(names = "--svg", paramLabel = "FILE", description = "Also draw it.")
    private Path svg;

    @Option(names = "--full", description = "Print every document, rank and edge, however many.")
    private boolean full;

    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        if (lengths == null && cuSeqlensFile == null) {
            throw new ParameterException(
                    spec.commandLine(), "no documents are given: use --lengths N,N,... or --cu-seqlens FILE");
        }
        if (lengths != null && cuSeqlensFile != null) {
            throw new IllegalArgumentException("--lengths and --cu-seqlens exclude each other: lengths="
                    + String.join(",", lengths) + " cu-seqlens=" + cuSeqlensFile);
        }
        cut.check();
        OptionRange.channels(channels);
        OutputFile.require("json", json);
        OutputFile.require("svg", svg);
        int ranks = RankOptions.checked(world == null ? cut.ranks() : world);
        CuSeqlens cuSeqlens = lengths != null ? CuSeqlens.ofLengths(parse(lengths)) : read(cuSeqlensFile);
        PlanReport report = PlanReport.of(cut.partition(cuSeqlens, ranks), cut.label(), cut.align(), channels);
        System.out.print(PlanText.write(report, full));
        if (json != null) {
            OutputFile.write("json", json, PlanJson.write(report) + "\n");
        }
        if (svg != null) {
            OutputFile.write("svg", svg, PlanSvg.write(report));
        }
        return ExitCode.DONE;
    }

    /** {@code [7, 5, 5]} of {@code 7,5x2}. */
    static int[] parse(List<String> lengths) {
        List<Integer> all = new ArrayList<>();
        for (String text : lengths) {
            String[] parts = text.strip().split("x", -1);
            try {
                int count = parts.length == 1 ? 1 : Integer.parseInt(parts[1]);
                if (parts.length > 2 || count < 0 || count > MOST_DOCUMENTS - all.size()) {
                    throw new IllegalArgumentException("--lengths takes N or NxCOUNT separated by commas, at most "
                            + MOST_DOCUMENTS + " documents in all: length=" + text);
                }
                all.addAll(Collections.nCopies(count, Integer.valueOf(parts[0])));
            } catch (NumberFormatException e) {
                throw new IllegalArgumentException(
                        "--lengths takes N or NxCOUNT separated by commas, N up to " + Integer.MAX_VALUE + ": length="
                                + text,
                        e);
            }
        }
        return all.stream().mapToInt(Integer::intValue).toArray();
    }

    private static CuSeqlens read(Path path) {
        try (Safetensors file = Safetensors.open(path);
                Tensor offsets = file.read("cu_seqlens")) {
            if (offsets.dtype() != DType.I32 || offsets.rank() != 1) {
                throw new IllegalArgumentException("cu_seqlens must be INT32 of one dimension: found=" + offsets);
            }
            return CuSeqlens.of(offsets.segment().toArray(ValueLayout.JAVA_INT));
        } catch (IllegalArgumentException e) {
            throw new KcpException(KcpException.Code.BAD_DATA, path + ": " + e.getMessage(), e);
        }
    }
}
