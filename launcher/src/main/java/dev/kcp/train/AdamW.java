package dev.kcp.train;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;

/**
 * AdamW with FP32 state, decoupled weight decay on matrices, and a limit on the gradient's norm:
 *
 * <pre>
 * g = gradient * min(1, CLIP_NORM / max(norm, smallest normal))       rounded to FP32
 * m = fma(m, beta1, g * (1 - beta1))      v = fma(v, beta2, g * g * (1 - beta2))
 * value = value * KEEP - m * STEP_SIZE / (sqrt(v) * SECOND_CORRECTION + epsilon)      KEEP for matrices, else 1
 * </pre>
 *
 * <p>Given the same gradients every rank computes the same bits.
 */
public final class AdamW implements AutoCloseable {
    /** Share that the first moment keeps each step. */
    public static final float BETA1 = 0.9f;
    /** Share that the second moment keeps each step. */
    public static final float BETA2 = 0.98f;
    /** Added to the root of the second moment. */
    public static final float EPSILON = 1e-8f;

    /** What a step's FP64 {@code [4]} factors mean, in this order. */
    public enum Factor {
        /** Learning rate over the first moment's bias correction. */
        STEP_SIZE,
        /** What the root of the second moment is multiplied with. */
        SECOND_CORRECTION,
        /** Share of a decayed weight that stays. */
        KEEP,
        /** Greatest norm of the whole gradient. */
        CLIP_NORM
    }

    private final TrainEngine engine;
    private final ParameterBuffer first;
    private final ParameterBuffer second;
    private final Tensor factors;
    private final double weightDecay;
    private final double clipNorm;

    /**
     * @param weightDecay share of the learning rate by which matrices shrink each step
     * @param clipNorm greatest norm that the whole gradient may have; a longer one is scaled down to it
     */
    AdamW(TrainEngine engine, ParameterTable table, double weightDecay, double clipNorm) {
        this.engine = engine;
        first = new ParameterBuffer(engine, DType.F32, table);
        second = new ParameterBuffer(engine, DType.F32, table);
        factors = engine.allocate(DType.F64, Factor.values().length);
        this.weightDecay = weightDecay;
        this.clipNorm = clipNorm;
    }

    /** @param step the step that comes next, counted from 1 */
    void prepare(int step, double learningRate) {
        double[] host = new double[Factor.values().length];
        host[Factor.STEP_SIZE.ordinal()] = learningRate / (1 - Math.pow(BETA1, step));
        host[Factor.SECOND_CORRECTION.ordinal()] = 1 / Math.sqrt(1 - Math.pow(BETA2, step));
        host[Factor.KEEP.ordinal()] = 1 - learningRate * weightDecay;
        host[Factor.CLIP_NORM.ordinal()] = clipNorm;
        engine.write(factors, MemorySegment.ofArray(host));
    }

    /**
     * Moves the weights one step against the gradients, as prepared; nothing is read back to the host.
     *
     * @param norm FP64, one element: the gradient's norm before it is limited; where it is not finite nothing is changed
     */
    void step(Weights weights, ParameterBuffer gradients, Tensor norm) {
        engine.gradientNorm(gradients, norm);
        engine.adamW(weights, gradients, first, second, norm, factors);
    }

    /** FP32 first moment, for saving. */
    ParameterBuffer first() {
        return first;
    }

    /** FP32 second moment, for saving. */
    ParameterBuffer second() {
        return second;
    }

    @Override
    public void close() {
        CloseStack.closeAll(first, second, factors);
    }
}
