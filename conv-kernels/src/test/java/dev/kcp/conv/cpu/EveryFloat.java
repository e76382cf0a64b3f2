package dev.kcp.conv.cpu;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import jdk.incubator.vector.FloatVector;

/**
 * A program that runs {@link Silu} on all 2^32 floats and prints the largest errors, and how many results differ between
 * the scalar and the vector form. Some minutes. {@code java ... dev.kcp.conv.cpu.EveryFloat THREADS}
 */
public final class EveryFloat {
    private static final int PARTS = 1 << 10;
    private static final int PART = 1 << 22;

    private record Part(SiluErrors errors, long nans, long differing) {}

    private EveryFloat() {}

    public static void main(String[] args) throws Exception {
        SiluErrors errors = new SiluErrors();
        long nans = 0;
        long differing = 0;
        try (ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(args[0]))) {
            List<Callable<Part>> tasks = new ArrayList<>();
            for (int i = 0; i < PARTS; i++) {
                int first = i * PART;
                tasks.add(() -> part(first));
            }
            for (Future<Part> done : threads.invokeAll(tasks)) {
                errors.add(done.get().errors());
                nans += done.get().nans();
                differing += done.get().differing();
            }
        }
        System.out.println("numbers " + errors.numbers + ", NaNs " + nans);
        System.out.println("exp(-a), a <= " + SiluErrors.SUBNORMAL + ": " + errors.exp + " ulp");
        System.out.println("exp(-a), a above: " + errors.expBelow + " absolute");
        System.out.println("silu: " + errors.silu + " ulp");
        System.out.println("derivative: " + errors.derivative + " ulp of its terms");
        System.out.println("beyond 88, not the limit: " + errors.wrongLimits);
        System.out.println("vector unlike scalar: " + differing);
    }

    private static Part part(int first) {
        SiluErrors errors = new SiluErrors();
        long nans = 0;
        long differing = 0;
        float[] in = new float[Lanes.COUNT];
        float[] silu = new float[Lanes.COUNT];
        float[] derivative = new float[Lanes.COUNT];
        for (int i = 0; i < PART; i += in.length) {
            for (int j = 0; j < in.length; j++) {
                in[j] = Float.intBitsToFloat(first + i + j);
            }
            FloatVector v = FloatVector.fromArray(Lanes.FLOAT, in, 0);
            Silu.silu(v).intoArray(silu, 0);
            Silu.derivative(v).intoArray(derivative, 0);
            for (int j = 0; j < in.length; j++) {
                differing +=
                        differs(silu[j], Silu.silu(in[j])) || differs(derivative[j], Silu.derivative(in[j])) ? 1 : 0;
                if (Float.isNaN(in[j])) {
                    nans++;
                } else {
                    errors.add(in[j]);
                }
            }
        }
        return new Part(errors, nans, differing);
    }

    private static boolean differs(float a, float b) {
        return Float.floatToIntBits(a) != Float.floatToIntBits(b);
    }
}
