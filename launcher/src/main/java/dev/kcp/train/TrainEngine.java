package dev.kcp.train;

import dev.kcp.conv.ConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;

/**
 * The trainer's programs on one device, beside the convolution's in {@link ConvEngine}. Programs run in call order on one
 * stream; only {@link #read} waits for them, so that everything else of a step can be recorded and replayed. All tensors
 * lie on this engine's device, are dense unless said otherwise, and were checked by the caller.
 *
 * <p>S = local rows, C = channels, V = 256 tokens of the vocabulary, N = nodes of the tiles. Types: {@code a} is
 * {@link #activationType}, {@code s} is {@link #streamType}, parameters that a product reads are of {@code a}, all other
 * parameters and all gradients of parameters FP32.
 *
 * <p>Programs that sum over tokens write {@code [N, elements]}, a row for each node of {@link Tiles}: the products or
 * additions inside a tile in an order that depends on nothing but the tile's rows, then tiles by {@link Tiles}' tree.
 * Rows of {@code sums} may lie apart; what stood there is overwritten. One engine serves one thread.
 */
public interface TrainEngine extends AutoCloseable {
    /** The convolution's programs, on the same device and stream; closed with this engine. */
    ConvEngine conv();

    /** Type {@code a} of what norms and products write: FP32 or BF16. */
    DType activationType();

    /** Type {@code s} of the residual stream and its gradient: FP32 or BF16. */
    DType streamType();

    /** A tensor of zeros on this device, owned by the caller; never inside {@link #step}. */
    default Tensor allocate(DType dtype, long... shape) {
        return conv().allocate(dtype, shape);
    }

    /** Copies from the host; {@code from} may be reused at return. Never inside {@link #step}. */
    void write(Tensor to, MemorySegment from);

    /** Copies to the host, and waits until all that was called before is done. Never inside {@link #step}. */
    void read(Tensor from, MemorySegment to);

    /**
     * Runs the programs of one step, collectives included.
     *
     * @param same a promise: where it equals that of the call before, this body would call the same programs on the same
     *     addresses, so that a device may record them and replay the record without running the body; null for none
     */
    default void step(Object same, Runnable body) {
        body.run();
    }

    /** Writes zeros over all elements, of any type. */
    void zero(Tensor tensor);

    /** Copies elements, cast where the types differ, rounded to nearest even. */
    void copy(Tensor from, Tensor to);

    /** {@code left += right}, FP32 or FP64. */
    void add(Tensor left, Tensor right);

    /**
     * Looks up each row's vector.
     *
     * @param tokens I32 {@code [S]}, 0 to 255
     * @param vectors a {@code [V, C]}
     * @param stream s {@code [S, C]}, overwritten
     */
    void embed(Tensor tokens, Tensor vectors, Tensor stream);

    /**
     * Gradient of the token vectors, which are the output matrix too: in each tile {@code dLogits^T normed}, and
     * then each row of dStream added to its token's vector.
     *
     * @param dLogits a {@code [S, V]}
     * @param normed a {@code [S, C]}
     * @param tokens I32 {@code [S]}
     * @param dStream s {@code [S, C]}
     * @param sums FP32 {@code [N, V * C]}
     */
    void embedBackward(Tiles tiles, Tensor dLogits, Tensor normed, Tensor tokens, Tensor dStream, Tensor sums);

    /**
     * {@code y = gain * x * r}, {@code r = 1 / sqrt(mean(x^2) + 1e-6)}.
     *
     * @param x s {@code [S, C]}
     * @param gain FP32 {@code [C]}
     * @param y a {@code [S, C]}, overwritten
     * @param inverseRms FP32 {@code [S]}, r of each row, overwritten
     */
    void norm(Tensor x, Tensor gain, Tensor y, Tensor inverseRms);

    /**
     * Adds the gradient of x to what stands in dx, and sums that of the gain.
     *
     * @param dy a {@code [S, C]}
     * @param dx s {@code [S, C]}
     * @param sums FP32 {@code [N, C]}
     */
    void normBackward(Tiles tiles, Tensor x, Tensor gain, Tensor inverseRms, Tensor dy, Tensor dx, Tensor sums);

    /**
     * {@code y = x w}, or {@code x w^T}, row by row: forward and, with the weight the other way round, the gradient of the
     * input.
     *
     * @param x {@code [S, K]}, BF16, a or s
     * @param weight a {@code [K, M]}, or {@code [M, K]} where transposed
     * @param plus s {@code [S, M]} that is added, or null; y is then s
     * @param y {@code [S, M]}, BF16, a or s, overwritten
     */
    void multiply(Tiles tiles, Tensor x, Tensor weight, boolean transposed, Tensor plus, Tensor y);

    /**
     * {@code x^T dy}, summed over tokens.
     *
     * @param x {@code [S, K]}, BF16, a or s
     * @param dy {@code [S, M]}, BF16, a or s
     * @param sums FP32 {@code [N, K * M]}
     */
    void weightGradient(Tiles tiles, Tensor x, Tensor dy, Tensor sums);

    /**
     * Cross entropy of each row, in nats, summed over tokens; each logit is replaced by {@code scale} times the loss's
     * gradient.
     *
     * @param logits a {@code [S, V]}
     * @param targets I32 {@code [S]}, 0 to 255
     * @param sums FP64 {@code [N, 1]}, not scaled
     */
    void crossEntropy(Tiles tiles, Tensor logits, Tensor targets, float scale, Tensor sums);

    /**
     * Euclidean norm of the whole gradient, in an order that depends on nothing but the number of elements.
     *
     * @param norm FP64, one element
     */
    void gradientNorm(ParameterBuffer gradients, Tensor norm);

    /**
     * One step of {@link AdamW} on all parameters; where the norm is not finite nothing is changed.
     *
     * @param weights FP32 values and, where it is another type, their copy for products
     * @param first FP32 first moment
     * @param second FP32 second moment
     * @param norm FP64, one element, from {@link #gradientNorm}
     * @param factors FP64 {@code [4]}, see {@link AdamW.Factor}
     */
    void adamW(
            Weights weights,
            ParameterBuffer gradients,
            ParameterBuffer first,
            ParameterBuffer second,
            Tensor norm,
            Tensor factors);

    @Override
    void close();
}
