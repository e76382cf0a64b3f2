package dev.kcp.conv;

import static dev.kcp.Arguments.present;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;

/**
 * Gradients of one convolution, as results and as the request for them: a null gradient is one that nobody asks for, and
 * it is not computed.
 *
 * @param dx BF16 {@code [S, C]}, or null
 * @param dweight FP32 or BF16 {@code [C, 4]}, or null
 * @param dbias FP32 or BF16 {@code [C]}, or null
 */
public record Gradients(Tensor dx, Tensor dweight, Tensor dbias) implements AutoCloseable {
    /** New tensors for all gradients of these arguments, in the parameters' types. */
    public static Gradients allocate(Tensor x, Tensor weight, Tensor bias) {
        present("x", x);
        present("weight", weight);
        return new Gradients(
                Tensor.zeros(DType.BF16, x.rows(), x.columns()),
                Tensor.zeros(weight.dtype(), weight.rows(), weight.columns()),
                bias == null ? null : Tensor.zeros(bias.dtype(), bias.columns()));
    }

    /** True where a parameter's gradient is asked for. */
    public boolean wantsSums() {
        return dweight != null || dbias != null;
    }

    @Override
    public void close() {
        for (Tensor gradient : new Tensor[] {dx, dweight, dbias}) {
            if (gradient != null) {
                gradient.close();
            }
        }
    }
}
