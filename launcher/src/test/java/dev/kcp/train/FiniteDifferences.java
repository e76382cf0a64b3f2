package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.function.ToDoubleFunction;

/** Gradients of FP64 functions, for comparison with those that the trainer computes. */
public final class FiniteDifferences {
    private static final double STEP = 1e-5;

    private FiniteDifferences() {}

    /** Central differences; {@code at} is moved and moved back. */
    public static double[] gradient(double[] at, ToDoubleFunction<double[]> function) {
        double[] gradient = new double[at.length];
        for (int i = 0; i < at.length; i++) {
            double kept = at[i];
            at[i] = kept + STEP;
            double above = function.applyAsDouble(at);
            at[i] = kept - STEP;
            double below = function.applyAsDouble(at);
            at[i] = kept;
            gradient[i] = (above - below) / (2 * STEP);
        }
        return gradient;
    }

    /** Asserts that the distance of two vectors is at most {@code tolerance} of the expected one's length. */
    public static void assertClose(String name, double[] actual, double[] expected, double tolerance) {
        assertThat(actual).hasSameSizeAs(expected);
        double distance = 0;
        double length = 0;
        for (int i = 0; i < expected.length; i++) {
            distance += (actual[i] - expected[i]) * (actual[i] - expected[i]);
            length += expected[i] * expected[i];
        }
        assertThat(length).as("%s has a gradient", name).isPositive();
        assertThat(Math.sqrt(distance / length))
                .as("relative distance of %s", name)
                .isLessThanOrEqualTo(tolerance);
    }
}
