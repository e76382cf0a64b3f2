package dev.kcp.train;

/**
 * Learning rate by step: rises in a line over the first steps, then falls along half a cosine to a tenth of the peak.
 *
 * @param peak greatest rate, above 0
 * @param steps steps of the run, at least 1
 */
record LearningRate(double peak, int steps) {
    private static final int LONGEST_WARM_UP = 50;
    private static final double LAST_SHARE = 0.1;

    /** @throws IllegalArgumentException if one is out of its range */
    LearningRate {
        if (!(peak > 0 && peak < Double.POSITIVE_INFINITY) || steps < 1) {
            throw new IllegalArgumentException("not a learning rate: learningRate=" + peak + " steps=" + steps);
        }
    }

    /** The rate of a step, counted from 1. */
    double at(int step) {
        int warmUp = Math.max(1, Math.min(LONGEST_WARM_UP, steps / 5));
        if (step <= warmUp) {
            return peak * step / warmUp;
        }
        double done = (step - warmUp) / (double) Math.max(1, steps - warmUp);
        return peak * (LAST_SHARE + (1 - LAST_SHARE) * 0.5 * (1 + Math.cos(Math.PI * done)));
    }
}
