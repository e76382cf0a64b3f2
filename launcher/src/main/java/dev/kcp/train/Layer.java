package dev.kcp.train;

import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.Activations.LayerActivations;
import dev.kcp.train.ParameterTable.LayerParameters;
import java.util.List;

/**
 * One layer: {@code h + silu(conv(rmsnorm(h) W1)) W2}. FP32 but for the convolution, whose x, y, dY and dX are BF16.
 * Only the convolution needs other tokens, so only it exchanges rows with other ranks.
 */
final class Layer {
    private final int index;
    private final int channels;
    private final LayerParameters parameters;
    private final KcpConv1d conv;

    Layer(ParameterTable table, int index) {
        this.index = index;
        this.channels = table.shape().channels();
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
        Activations activations = state.activations();
        LayerActivations own = activations.layer(index);
        ParameterBuffer values = state.values();
        int rows = state.rows();
        RmsNorm.forward(
                rows,
                channels,
                activations.residual(index),
                values.address(parameters.gain()),
                own.normed().address(),
                own.inverseRms().address());
        long projected = activations.scratch();
        state.gemm()
                .multiply(
                        rows,
                        channels,
                        channels,
                        own.normed().address(),
                        false,
                        values.address(parameters.w1()),
                        false,
                        0,
                        projected);
        Casts.toBf16(projected, own.x().address(), elements(rows));
        return conv.forward(
                state.context(),
                own.x().rows(0, rows),
                values.tensor(parameters.taps()),
                values.tensor(parameters.bias()),
                own.y().rows(0, rows),
                handle);
    }

    /** The rest of forward: writes the residual stream behind this layer. */
    void project(StepState state) {
        Activations activations = state.activations();
        int rows = state.rows();
        long convolved = activations.scratch();
        Casts.toFloat(activations.layer(index).y().address(), convolved, elements(rows));
        long out = activations.residual(index + 1);
        HostMemory.copy(activations.residual(index), out, elements(rows) * Float.BYTES);
        long w2 = state.values().address(parameters.w2());
        state.gemm().multiply(rows, channels, channels, convolved, false, w2, false, 1, out);
    }

    /**
     * Turns the residual stream's gradient behind this layer into the one before it, and adds the gradients of the
     * layer's dense parameters.
     *
     * @return this rank's gradients of taps and bias; closed by the caller
     */
    PartialGradients backward(StepState state, Saved saved) {
        Activations activations = state.activations();
        LayerActivations own = activations.layer(index);
        ParameterBuffer values = state.values();
        ParameterBuffer gradients = state.gradients();
        Gemm gemm = state.gemm();
        int rows = state.rows();
        long dOut = activations.residualGradient();
        long convolved = activations.scratch();
        Casts.toFloat(own.y().address(), convolved, elements(rows));
        gemm.multiply(channels, channels, rows, convolved, true, dOut, false, 1, gradients.address(parameters.w2()));
        long dConvolved = activations.otherScratch();
        gemm.multiply(rows, channels, channels, dOut, false, values.address(parameters.w2()), true, 0, dConvolved);
        Tensor dy = activations.convGradientOut().rows(0, rows);
        Tensor dx = activations.convGradientIn().rows(0, rows);
        Casts.toBf16(dConvolved, dy.address(), elements(rows));
        PartialGradients partial = conv.backward(saved, dy, dx);
        long dProjected = activations.scratch();
        Casts.toFloat(dx.address(), dProjected, elements(rows));
        gemm.multiply(
                channels,
                channels,
                rows,
                own.normed().address(),
                true,
                dProjected,
                false,
                1,
                gradients.address(parameters.w1()));
        long dNormed = activations.otherScratch();
        gemm.multiply(rows, channels, channels, dProjected, false, values.address(parameters.w1()), true, 0, dNormed);
        RmsNorm.backward(
                rows,
                channels,
                activations.residual(index),
                values.address(parameters.gain()),
                own.inverseRms().address(),
                dNormed,
                dOut,
                gradients.address(parameters.gain()));
        return partial;
    }

    /** Sums the gradients of taps and bias over the group; collective. */
    void reduce(PartialGradients partial, ParameterBuffer gradients) {
        try (Gradients sums = conv.reduceGradients(List.of(partial), DType.F32)) {
            gradients
                    .tensor(parameters.taps())
                    .segment()
                    .copyFrom(sums.dweight().segment());
            gradients.tensor(parameters.bias()).segment().copyFrom(sums.dbias().segment());
        }
    }

    /** Exchanges made so far. */
    ExchangeCounts exchanges() {
        return conv.exchanges();
    }

    private long elements(int rows) {
        return (long) rows * channels;
    }
}
