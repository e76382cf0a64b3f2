package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.core.Partition;
import dev.kcp.plan.PlanReport;
import dev.kcp.plan.PlanSvg;
import dev.kcp.train.Packer;
import dev.kcp.train.TextCorpus;
import dev.kcp.train.TrainConfig;
import dev.kcp.train.TrainSummary;
import dev.kcp.train.report.CurveCharts;
import dev.kcp.train.report.Curves;
import dev.kcp.train.report.RunReport;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import picocli.CommandLine.Option;

/** The options of {@code kcp train} that show a run in pictures. */
final class ReportOptions {
    @Option(
            names = "--plot",
            paramLabel = "FILE",
            description =
                    "Draw loss, tokens per second, and a step's time split into compute, waiting for other ranks and "
                            + "optimizer; the name ends in .svg or .png.")
    private Path plot;

    @Option(
            names = "--report",
            paramLabel = "FILE",
            description = "Write the same as one HTML page, with the first batch's partition and the run's settings.")
    private Path report;

    /**
     * Looks before the run for what would keep it from being shown after it.
     *
     * @throws IllegalArgumentException if a name has another ending
     * @throws KcpException if a file cannot be written
     */
    void check() {
        if (plot != null) {
            CurveCharts.isSvg(plot);
        }
        OutputFile.require("plot", plot);
        OutputFile.require("report", report);
    }

    /** Says before a long run, rather than after it, that this machine cannot draw; on rank 0. */
    void tellWhetherDrawn() {
        CurveCharts.cannotDraw()
                .ifPresent(
                        why -> Main.note("Java cannot draw on this machine, it needs libfreetype, libfontconfig and a"
                                + " font; the run goes on without curves: cause=" + why));
    }

    /** The files that were asked for, by option. */
    Map<String, Path> outputs() {
        Map<String, Path> outputs = new LinkedHashMap<>();
        outputs.put("plot", plot);
        outputs.put("report", report);
        outputs.values().removeIf(Objects::isNull);
        return outputs;
    }

    /** Whether steps are to be collected. */
    boolean isWanted() {
        return plot != null || report != null;
    }

    /** Writes what was asked for; on rank 0. */
    void write(TrainConfig config, TextCorpus corpus, Curves curves, TrainSummary summary) {
        if (plot != null && curves.points().isEmpty()) {
            System.err.println("kcp: no step was left to make, so nothing is drawn: plot=" + plot);
        } else if (plot != null && CurveCharts.cannotDraw().isEmpty()) {
            OutputFile.write("plot", plot, CurveCharts.picture(CurveCharts.isSvg(plot), curves.points()));
        }
        if (report != null) {
            Partition first = Partition.of(
                    config.layout(),
                    new Packer(corpus, config.tokens(), config.seed()).next().cuSeqlens(),
                    summary.world(),
                    config.align());
            RunReport page = new RunReport(
                    "kcp train",
                    results(summary),
                    settings(config, corpus, summary),
                    curves.points(),
                    Optional.of(PlanSvg.write(PlanReport.of(
                            first,
                            config.layout().label(),
                            config.align(),
                            config.shape().channels()))));
            OutputFile.write("report", report, page.html());
        }
    }

    private static Map<String, String> results(TrainSummary summary) {
        Map<String, String> rows = new LinkedHashMap<>();
        rows.put(
                "Loss, nats per byte",
                String.format(Locale.ROOT, "%.4f at first, %.4f at last", summary.firstLoss(), summary.finalLoss()));
        if (summary.heldOutLoss() != null) {
            rows.put("Loss on held-out text", String.format(Locale.ROOT, "%.4f", summary.heldOutLoss()));
        }
        rows.put(
                "Steps",
                summary.steps()
                        + (summary.resumedFrom() > 0
                                ? ", the first " + summary.resumedFrom() + " by an earlier run"
                                : ""));
        rows.put("Tokens per second", String.format(Locale.ROOT, "%.0f", summary.tokensPerSecond()));
        rows.put("Seconds", String.format(Locale.ROOT, "%.1f", summary.elapsedMillis() / 1000.0));
        rows.put(
                "Exchanges per layer and step",
                summary.exchanges().forward() + " forward, "
                        + summary.exchanges().recompute() + " recompute, "
                        + summary.exchanges().backward() + " backward");
        rows.put(
                "Halo bytes per step",
                summary.haloBytes().forward() + " forward, "
                        + summary.haloBytes().backward() + " backward");
        rows.put("Activation bytes of a rank", Long.toString(summary.activationBytes()));
        return rows;
    }

    private static Map<String, String> settings(TrainConfig config, TextCorpus corpus, TrainSummary summary) {
        Map<String, String> rows = new LinkedHashMap<>();
        rows.put("Text", corpus.bytes() + " bytes in " + corpus.documents() + " documents");
        rows.put("Ranks", Integer.toString(summary.world()));
        rows.put("Layout", config.layout().label() + ", cut at multiples of " + config.align() + " tokens");
        rows.put("Layers", Integer.toString(config.shape().layers()));
        rows.put("Channels", Integer.toString(config.shape().channels()));
        rows.put("Parameters", Long.toString(summary.parameters()));
        rows.put(
                "Tokens of a step",
                config.stepTokens()
                        + (config.microSteps() > 1
                                ? " in " + config.microSteps() + " batches of " + config.tokens()
                                : ""));
        rows.put("Steps asked for", Integer.toString(config.steps()));
        rows.put("Seed", Long.toString(config.seed()));
        rows.put("Learning rate", Double.toString(config.learningRate()));
        rows.put("Weight decay", Double.toString(config.weightDecay()));
        rows.put("Gradient norm at most", Double.toString(config.clipNorm()));
        rows.put(
                "Checkpointing",
                !config.checkpoint()
                        ? "none, activations are kept"
                        : config.handles()
                                ? "every layer, halo rows kept in handles"
                                : "every layer, halo rows exchanged again");
        rows.put("Same bits on any number of ranks", config.sameBits() ? "yes" : "no");
        rows.put("Version", Version.text());
        return rows;
    }
}
