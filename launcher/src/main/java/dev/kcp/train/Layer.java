package dev.kcp.train;

import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.Activations.LayerActivations;
import dev.kcp.train.ParameterTable.LayerParameters;
import java.util.List;

/**
 * One layer: {@code h + silu(conv(rmsnorm(h) W1)) W2}. x, y, dY and dX of the
 * convolution are BF16, all else is of the engine's types.
 * Only the convolution needs other tokens, so only it exchanges rows with other ranks.
 */
final class Layer {
    private final int index;
    private final LayerParameters parameters;
    private final KcpConv1d conv;

    Layer(ParameterTable table, int index) {
        this.index = index;
        this.parameters = table.layer(index);
        this.conv = new KcpConv1d("layer" + index + ".conv", ConvOptions.DEFAULT);
    }

    /**
     * The layer up to the convolution's output, which is all that backward reads; so it is also what a checkpointed
     * layer computes again.
     *
     * @param handle of the checkpoint that this runs in, or null
     * @return what the convolution's backward needs; closed by the caller
     */
    Saved convolve(StepState state, RecomputeHandle handle) {
        LayerActivations own = state.activations().layer(index);
        Weights weights = state.weights();
        TrainEngine engine = state.engine();
        Tensor stream = state.activations().residual(index);
        engine.norm(stream, weights.vector(parameters.gain()), own.normed(), own.inverseRms());
        engine.multiply(state.tiles(), own.normed(), weights.matrix(parameters.w1()), false, null, own.x());
        Saved saved = conv.forward(
                state.context(),
                own.x(),
                weights.vector(parameters.taps()),
                weights.vector(parameters.bias()),
                own.y(),
                handle);
        state.probe().look(index, "y", own.y());
        return saved;
    }

    /** The rest of forward: writes the residual stream behind this layer. */
    void project(StepState state) {
        Activations activations = state.activations();
        state.engine()
                .multiply(
                        state.tiles(),
                        activations.layer(index).y(),
                        state.weights().matrix(parameters.w2()),
                        false,
                        activations.residual(index),
                        activations.residual(index + 1));
    }

    /**
     * Turns the residual stream's gradient behind this layer into the one before it, and sums the gradients of the
     * layer's dense parameters.
     *
     * @return this rank's gradients of taps and bias; closed by the caller
     */
    PartialGradients backward(StepState state, Saved saved) {
        Activations activations = state.activations();
        LayerActivations own = activations.layer(index);
        Weights weights = state.weights();
        StepSums sums = state.sums();
        TrainEngine engine = state.engine();
        Tiles tiles = state.tiles();
        Tensor dStream = activations.streamGradient();
        Tensor dy = activations.convGradientOut();
        Tensor dx = activations.convGradientIn();
        engine.weightGradient(tiles, own.y(), dStream, sums.of(parameters.w2()));
        engine.multiply(tiles, dStream, weights.matrix(parameters.w2()), true, null, dy);
        PartialGradients partial = conv.backward(saved, dy, dx);
        state.probe().look(index, "dx", dx);
        engine.weightGradient(tiles, own.normed(), dx, sums.of(parameters.w1()));
        Tensor dNormed = activations.normedGradient();
        engine.multiply(tiles, dx, weights.matrix(parameters.w1()), true, null, dNormed);
        engine.normBackward(
                tiles,
                activations.residual(index),
                weights.vector(parameters.gain()),
                own.inverseRms(),
                dNormed,
                dStream,
                sums.of(parameters.gain()));
        return partial;
    }

    /**
     * Sums the gradients of taps and bias over the group and over micro-steps; collective.
     *
     * @param microSteps this rank's gradients, in micro-step order
     */
    void reduce(TrainEngine engine, List<PartialGradients> microSteps, ParameterBuffer gradients) {
        try (Gradients sums = conv.reduceGradients(microSteps, DType.F32)) {
            engine.copy(sums.dweight(), gradients.tensor(parameters.taps()));
            engine.copy(sums.dbias(), gradients.tensor(parameters.bias()));
        }
    }

    /** Exchanges made so far. */
    ExchangeCounts exchanges() {
        return conv.exchanges();
    }
}
