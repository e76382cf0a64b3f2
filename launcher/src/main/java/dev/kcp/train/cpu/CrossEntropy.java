package dev.kcp.train.cpu;

import dev.kcp.tensor.HostMemory;
import dev.kcp.train.ModelShape;
import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;

/** Cross entropy of byte logits, FP32 rows of 256, against the target token of each row. */
final class CrossEntropy {
    private static final long ROW_BYTES = (long) ModelShape.VOCABULARY * Float.BYTES;

    private CrossEntropy() {}

    /**
     * Replaces each logit of a row by {@code scale} times the loss's gradient.
     *
     * @return the row's loss in nats, not scaled
     */
    static double lossAndGradient(long row, int target, float scale) {
        FloatVector greatest = Lanes.load(row);
        for (long i = Lanes.BYTES; i < ROW_BYTES; i += Lanes.BYTES) {
            greatest = greatest.max(Lanes.load(row + i));
        }
        float top = greatest.reduceLanes(VectorOperators.MAX);
        long targetAddress = row + (long) target * Float.BYTES;
        double targetLogit = (double) HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, targetAddress) - top;
        FloatVector sums = FloatVector.zero(Lanes.FLOATS);
        for (long i = 0; i < ROW_BYTES; i += Lanes.BYTES) {
            FloatVector power = Lanes.expOfNegative(Lanes.load(row + i).sub(top));
            Lanes.store(power, row + i);
            sums = sums.add(power);
        }
        float total = Lanes.sum(sums);
        float factor = scale / total;
        for (long i = 0; i < ROW_BYTES; i += Lanes.BYTES) {
            Lanes.store(Lanes.load(row + i).mul(factor), row + i);
        }
        float atTarget = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, targetAddress);
        HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, targetAddress, atTarget - scale);
        return Math.log(total) - targetLogit;
    }
}
