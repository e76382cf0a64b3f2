package dev.kcp.conv;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvEngine.Part;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.Objects;

/**
 * The single-rank op: a depthwise causal convolution of width 4 with SiLU over packed documents, forward and backward.
 *
 * <pre>
 * p[t,c] = w[c,0]*x[t-3,c] + w[c,1]*x[t-2,c] + w[c,2]*x[t-1,c] + w[c,3]*x[t,c] + bias[c]     y = bf16(p * sigmoid(p))
 * </pre>
 *
 * Rows before a document's first token are zero. S = rows, C = channels, a multiple of 8. No result depends on an
 * earlier call; what an engine keeps is scratch, and tables known by the offsets themselves.
 */
public final class CausalConv1d {
    private final ConvEngine engine;
    private final ConvOptions options;

    /**
     * @param engine the device's programs, borrowed
     */
    public CausalConv1d(ConvEngine engine, ConvOptions options) {
        this.engine = Objects.requireNonNull(engine, "engine");
        this.options = Objects.requireNonNull(options, "options");
    }

    /**
     * Computes y into {@code out}.
     *
     * @param x BF16 {@code [S, C]} or {@code [1, S, C]}, rows possibly pitched
     * @param weight FP32 or BF16 {@code [C, 4]}, the current token's tap last
     * @param bias FP32 or BF16 {@code [C]}, or null
     * @param cuSeqlens INT32 {@code [documents + 1]}
     * @param out BF16 of x's shape, or null for a new tensor that the caller closes
     * @return out, or the new tensor
     * @throws IllegalArgumentException before anything is computed
     */
    public Tensor forward(Tensor x, Tensor weight, Tensor bias, Tensor cuSeqlens, Tensor out) {
        ConvChecks.rows("x", x, engine.device());
        ConvChecks.parameters(x, weight, bias);
        if (out != null) {
            ConvChecks.rowsLike(x, "out", out);
        }
        try (Shard batch = engine.batch(cuSeqlens, x.rows(), options.allowSlack())) {
            Tensor y = out == null ? engine.allocate(DType.BF16, x.shape()) : out;
            try {
                engine.forward(batch, new Operands(x, weight, bias, null), options, Part.MAIN, y);
                return y;
            } catch (RuntimeException | Error e) {
                if (out == null) {
                    y.close();
                }
                throw e;
            }
        }
    }

    /**
     * Computes the gradients that {@code out} has room for.
     *
     * @param dy BF16 of x's shape, or null for zeros
     * @param out tensors to write; null gradients are not computed
     * @return out
     * @throws IllegalArgumentException before anything is computed
     */
    public Gradients backward(Tensor x, Tensor weight, Tensor bias, Tensor cuSeqlens, Tensor dy, Gradients out) {
        ConvChecks.rows("x", x, engine.device());
        ConvChecks.parameters(x, weight, bias);
        if (dy != null) {
            ConvChecks.rowsLike(x, "dy", dy);
        }
        ConvChecks.gradients(x, bias, out);
        try (Shard batch = engine.batch(cuSeqlens, x.rows(), options.allowSlack())) {
            engine.backward(batch, new Operands(x, weight, bias, null), options, dy, out);
        }
        return out;
    }
}
