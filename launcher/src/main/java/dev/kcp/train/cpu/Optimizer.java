package dev.kcp.train.cpu;

import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.AdamW;
import dev.kcp.train.AdamW.Factor;
import dev.kcp.train.Parameter;
import dev.kcp.train.ParameterBuffer;
import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.FloatVector;

/** The loops of {@link AdamW}. */
final class Optimizer {
    private Optimizer() {}

    static double norm(Tensor gradients) {
        double even = 0;
        double odd = 0;
        long address = gradients.address();
        long end = address + gradients.elements() * Float.BYTES;
        for (; address < end; address += 2 * Float.BYTES) {
            double a = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address);
            double b = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address + Float.BYTES);
            even += a * a;
            odd += b * b;
        }
        return Math.sqrt(even + odd);
    }

    static void update(
            ParameterBuffer values,
            ParameterBuffer gradients,
            ParameterBuffer first,
            ParameterBuffer second,
            double norm,
            Tensor factors) {
        float scale = (float) Math.min(1, get(factors, Factor.CLIP_NORM) / Math.max(norm, Double.MIN_NORMAL));
        for (Parameter parameter : values.table().all()) {
            update(
                    parameter.elements(),
                    values.address(parameter),
                    gradients.address(parameter),
                    first.address(parameter),
                    second.address(parameter),
                    scale,
                    parameter.decayed() ? (float) get(factors, Factor.KEEP) : 1,
                    (float) get(factors, Factor.STEP_SIZE),
                    (float) get(factors, Factor.SECOND_CORRECTION));
        }
    }

    private static double get(Tensor factors, Factor factor) {
        return HostMemory.ALL.get(ValueLayout.JAVA_DOUBLE, factors.address() + (long) factor.ordinal() * Double.BYTES);
    }

    private static void update(
            long elements,
            long value,
            long gradient,
            long first,
            long second,
            float scale,
            float keep,
            float stepSize,
            float secondCorrection) {
        FloatVector beta1 = FloatVector.broadcast(Lanes.FLOATS, AdamW.BETA1);
        FloatVector beta2 = FloatVector.broadcast(Lanes.FLOATS, AdamW.BETA2);
        // Element counts are multiples of 8, because channels are.
        for (long i = 0; i < elements * Float.BYTES; i += Lanes.BYTES) {
            FloatVector g = Lanes.load(gradient + i).mul(scale);
            FloatVector m = Lanes.load(first + i).fma(beta1, g.mul(1 - AdamW.BETA1));
            FloatVector v = Lanes.load(second + i).fma(beta2, g.mul(g).mul(1 - AdamW.BETA2));
            Lanes.store(m, first + i);
            Lanes.store(v, second + i);
            FloatVector move =
                    m.mul(stepSize).div(v.sqrt().mul(secondCorrection).add(AdamW.EPSILON));
            Lanes.store(Lanes.load(value + i).mul(keep).sub(move), value + i);
        }
    }
}
