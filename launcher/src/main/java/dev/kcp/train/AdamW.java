package dev.kcp.train;

import dev.kcp.tensor.HostMemory;
import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.FloatVector;

/**
 * AdamW with FP32 state, decoupled weight decay on matrices, and a limit on the gradient's norm. Given the same
 * gradients every rank computes the same bits.
 */
final class AdamW implements AutoCloseable {
    static final float BETA1 = 0.9f;
    static final float BETA2 = 0.98f;
    static final float EPSILON = 1e-8f;

    private final ParameterBuffer firstMoment;
    private final ParameterBuffer secondMoment;
    private final double weightDecay;
    private final double clipNorm;
    private int steps;

    /**
     * @param weightDecay share of the learning rate by which matrices shrink each step
     * @param clipNorm greatest norm that the whole gradient may have; a longer one is scaled down to it
     */
    AdamW(ParameterTable table, double weightDecay, double clipNorm) {
        this.firstMoment = new ParameterBuffer(table);
        this.secondMoment = new ParameterBuffer(table);
        this.weightDecay = weightDecay;
        this.clipNorm = clipNorm;
    }

    /**
     * Moves the values one step against the gradients.
     *
     * @return the gradient's norm before it was limited; where that is not finite, nothing was changed
     */
    double step(ParameterBuffer values, ParameterBuffer gradients, double learningRate) {
        double norm = norm(gradients);
        if (!Double.isFinite(norm)) {
            return norm;
        }
        steps++;
        float scale = (float) Math.min(1, clipNorm / Math.max(norm, Double.MIN_NORMAL));
        float stepSize = (float) (learningRate / (1 - Math.pow(BETA1, steps)));
        float secondCorrection = (float) (1 / Math.sqrt(1 - Math.pow(BETA2, steps)));
        for (Parameter parameter : values.table().all()) {
            float keep = parameter.decayed() ? (float) (1 - learningRate * weightDecay) : 1;
            update(parameter, values, gradients, scale, stepSize, secondCorrection, keep);
        }
        return norm;
    }

    private void update(
            Parameter parameter,
            ParameterBuffer values,
            ParameterBuffer gradients,
            float scale,
            float stepSize,
            float secondCorrection,
            float keep) {
        long value = values.address(parameter);
        long gradient = gradients.address(parameter);
        long first = firstMoment.address(parameter);
        long second = secondMoment.address(parameter);
        FloatVector beta1 = FloatVector.broadcast(Lanes.FLOATS, BETA1);
        FloatVector beta2 = FloatVector.broadcast(Lanes.FLOATS, BETA2);
        // Element counts are multiples of 8, because channels are.
        for (long i = 0; i < parameter.elements() * Float.BYTES; i += Lanes.BYTES) {
            FloatVector g = Lanes.load(gradient + i).mul(scale);
            FloatVector m = Lanes.load(first + i).fma(beta1, g.mul(1 - BETA1));
            FloatVector v = Lanes.load(second + i).fma(beta2, g.mul(g).mul(1 - BETA2));
            Lanes.store(m, first + i);
            Lanes.store(v, second + i);
            FloatVector move =
                    m.mul(stepSize).div(v.sqrt().mul(secondCorrection).add(EPSILON));
            Lanes.store(Lanes.load(value + i).mul(keep).sub(move), value + i);
        }
    }

    private static double norm(ParameterBuffer gradients) {
        double even = 0;
        double odd = 0;
        long address = gradients.address();
        long end = address + gradients.table().bufferElements() * Float.BYTES;
        for (; address < end; address += 2 * Float.BYTES) {
            double a = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address);
            double b = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address + Float.BYTES);
            even += a * a;
            odd += b * b;
        }
        return Math.sqrt(even + odd);
    }

    @Override
    public void close() {
        firstMoment.close();
        secondMoment.close();
    }
}
