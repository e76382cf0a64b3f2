package dev.kcp.conv;

import static dev.kcp.Arguments.present;

import dev.kcp.tensor.StridedView;
import dev.kcp.tensor.Tensor;

/**
 * The op as an autograd engine sees it: forward saves its arguments and nothing else, backward takes a gradient of any
 * layout or type and returns gradients in the parameters' types. The saved tensors are borrowed; they must live until
 * backward.
 */
public final class CausalConv1dFunction {
    /** What forward saved for backward. */
    public record Saved(Tensor x, Tensor weight, Tensor cuSeqlens, Tensor bias) {}

    /**
     * Forward's result.
     *
     * @param y BF16 of x's shape, closed by the caller
     */
    public record Output(Tensor y, Saved saved) {}

    private final CausalConv1d conv;

    /**
     * Wraps the op.
     *
     * @param conv borrowed, as is its engine
     */
    public CausalConv1dFunction(CausalConv1d conv) {
        this.conv = present("conv", conv);
    }

    /** Arguments as in {@link CausalConv1d#forward}. */
    public Output forward(Tensor x, Tensor weight, Tensor bias, Tensor cuSeqlens) {
        Tensor y = conv.forward(x, weight, bias, cuSeqlens, null);
        return new Output(y, new Saved(x, weight, cuSeqlens, bias));
    }

    /**
     * All gradients, closed by the caller.
     *
     * @param dy gradient of y in any layout and floating-point type, or null for zeros
     */
    public Gradients backward(Saved saved, StridedView dy) {
        present("saved", saved);
        Gradients out = Gradients.allocate(saved.x(), saved.weight(), saved.bias());
        try (Tensor dense = dy == null ? null : dy.toBf16()) {
            return conv.backward(saved.x(), saved.weight(), saved.bias(), saved.cuSeqlens(), dense, out);
        } catch (RuntimeException e) {
            out.close();
            throw e;
        }
    }
}
