package dev.kcp.launcher;

import dev.kcp.conv.tree.NodeStack;
import dev.kcp.core.Layout;
import dev.kcp.train.ModelShape;
import dev.kcp.train.TrainConfig;
import picocli.CommandLine.Option;

/** The options of {@code kcp train} that decide a run's numbers. */
final class TrainOptions {
    @Option(names = "--layers", defaultValue = "4", paramLabel = "L", description = "Layers (${DEFAULT-VALUE}).")
    private int layers;

    @Option(
            names = "--channels",
            defaultValue = "256",
            paramLabel = "C",
            description = "Width, a multiple of 8 (${DEFAULT-VALUE}).")
    private int channels;

    @Option(
            names = "--tokens",
            defaultValue = "2048",
            paramLabel = "S",
            description = "Tokens of each batch over all ranks (${DEFAULT-VALUE}).")
    private int tokens;

    @Option(
            names = "--micro-steps",
            defaultValue = "1",
            paramLabel = "M",
            description = "Batches of each step, whose gradients add up: a step takes M x S tokens (${DEFAULT-VALUE}).")
    private int microSteps;

    @Option(
            names = "--steps",
            defaultValue = "300",
            paramLabel = "K",
            description = "Optimizer steps (${DEFAULT-VALUE}).")
    private int steps;

    @Option(
            names = "--layout",
            defaultValue = "contiguous",
            paramLabel = "LAYOUT",
            description = "contiguous, zigzag or zigzagPerDocument: how tokens are shared out (${DEFAULT-VALUE}).")
    private String layout;

    @Option(
            names = "--align",
            defaultValue = "64",
            paramLabel = "N",
            description = "Batches are cut at multiples of N tokens (${DEFAULT-VALUE}).")
    private int align;

    @Option(
            names = "--checkpoint",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "Recompute layers in backward, or keep their activations (recompute).")
    private boolean checkpoint;

    @Option(
            names = "--handles",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "Recompute from kept halo rows, or exchange them again, to compare (kept).")
    private boolean handles;

    @Option(
            names = "--same-bits",
            negatable = true,
            arity = "0",
            description =
                    "Give the same bits on any number of ranks and in any layout, at a small cost; where --align is a "
                            + "multiple of 64 it is on unless --no-same-bits is given.")
    private Boolean sameBits;

    @Option(
            names = "--seed",
            defaultValue = "1",
            paramLabel = "N",
            description = "Of first weights and order (${DEFAULT-VALUE}).")
    private long seed;

    @Option(
            names = "--learning-rate",
            defaultValue = "0.004",
            paramLabel = "RATE",
            description = "Peak; after a warm-up it falls to a tenth (${DEFAULT-VALUE}).")
    private double learningRate;

    @Option(
            names = "--weight-decay",
            defaultValue = "0.1",
            paramLabel = "D",
            description = "Decoupled, of matrices only (${DEFAULT-VALUE}).")
    private double weightDecay;

    @Option(
            names = "--clip",
            defaultValue = "1",
            paramLabel = "NORM",
            description = "Greatest gradient norm (${DEFAULT-VALUE}).")
    private double clipNorm;

    /** @throws IllegalArgumentException if the options cannot make a run; the text ends in name=value */
    TrainConfig config() {
        OptionRange.atLeast("--layers", layers, 1);
        OptionRange.channels(channels);
        OptionRange.atLeast("--tokens", tokens, 1);
        OptionRange.atLeast("--micro-steps", microSteps, 1);
        OptionRange.atLeast("--steps", steps, 1);
        OptionRange.atLeast("--align", align, 1);
        if (sameBits != null && sameBits && align % NodeStack.LEAF_TOKENS != 0) {
            throw new IllegalArgumentException(
                    "--same-bits needs --align to be a multiple of " + NodeStack.LEAF_TOKENS + ": align=" + align);
        }
        OptionRange.positive("--learning-rate", learningRate);
        OptionRange.positive("--clip", clipNorm);
        return new TrainConfig(
                new ModelShape(layers, channels),
                tokens,
                steps,
                seed,
                learningRate,
                weightDecay,
                clipNorm,
                Layout.parse(layout),
                align,
                checkpoint,
                sameBits == null ? align % NodeStack.LEAF_TOKENS == 0 : sameBits,
                microSteps,
                handles);
    }
}
