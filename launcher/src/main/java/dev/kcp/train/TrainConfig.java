package dev.kcp.train;

import dev.kcp.conv.tree.NodeStack;
import dev.kcp.core.Layout;
import java.util.Objects;

/**
 * Everything that decides a run's numbers, but for the text and the number of ranks.
 *
 * @param shape size of the model
 * @param tokens tokens of a packed batch, over all ranks
 * @param steps optimizer steps
 * @param seed of first values and of the documents' order
 * @param learningRate peak of the schedule
 * @param weightDecay share of the learning rate by which matrices shrink each step
 * @param clipNorm greatest norm of the whole gradient
 * @param layout how the batch's tokens are shared out over ranks
 * @param align packed tokens between places where the batch may be cut
 * @param checkpoint whether layers are recomputed in backward instead of keeping their activations
 * @param sameBits whether the run has the same bits on any number of ranks and in any layout; needs an alignment that is a
 *     multiple of 64
 * @param microSteps batches of each step: their gradients are added before the optimizer moves the weights
 * @param handles whether a recompute finds its halo rows in a handle; without, it exchanges them again, for comparison
 */
public record TrainConfig(
        ModelShape shape,
        int tokens,
        int steps,
        long seed,
        double learningRate,
        double weightDecay,
        double clipNorm,
        Layout layout,
        int align,
        boolean checkpoint,
        boolean sameBits,
        int microSteps,
        boolean handles) {
    /**
     * @throws IllegalArgumentException naming the field and its value, if one is out of range or contradicts another
     */
    public TrainConfig {
        Objects.requireNonNull(shape, "shape");
        Objects.requireNonNull(layout, "layout");
        if (tokens < 1 || steps < 1) {
            throw new IllegalArgumentException(
                    "a run needs at least one token and one step: tokens=" + tokens + " steps=" + steps);
        }
        if (microSteps < 1) {
            throw new IllegalArgumentException("a step needs at least one batch: microSteps=" + microSteps);
        }
        if (align < 1) {
            throw new IllegalArgumentException("alignment must be at least 1: align=" + align);
        }
        if (sameBits && align % NodeStack.LEAF_TOKENS != 0) {
            throw new IllegalArgumentException(
                    "the same bits on any number of ranks need cuts at multiples of 64 tokens: align=" + align);
        }
        if (!(learningRate > 0) || Double.isInfinite(learningRate)) {
            throw new IllegalArgumentException("the learning rate must be above 0: learningRate=" + learningRate);
        }
        if (!(weightDecay >= 0 && learningRate * weightDecay < 1)) {
            throw new IllegalArgumentException("weight decay must shrink, not turn, a weight: weightDecay="
                    + weightDecay + " learningRate=" + learningRate);
        }
        if (!(clipNorm > 0)) {
            throw new IllegalArgumentException("the gradient's limit must be above 0: clipNorm=" + clipNorm);
        }
    }

    /** A run of one batch per step, with handles. */
    public TrainConfig(
            ModelShape shape,
            int tokens,
            int steps,
            long seed,
            double learningRate,
            double weightDecay,
            double clipNorm,
            Layout layout,
            int align,
            boolean checkpoint,
            boolean sameBits) {
        this(
                shape,
                tokens,
                steps,
                seed,
                learningRate,
                weightDecay,
                clipNorm,
                layout,
                align,
                checkpoint,
                sameBits,
                1,
                true);
    }

    /** Tokens that a step takes, over all ranks and batches. */
    public long stepTokens() {
        return (long) tokens * microSteps;
    }
}
