package dev.kcp.train;

import java.util.concurrent.TimeUnit;

/** Tokens per second over the last steps, so that what the first ones cost does not hide how fast the run is. */
final class RecentRate {
    private static final int STEPS = 20;

    private final long stepTokens;
    private final long[] ends = new long[STEPS + 1];
    private int steps;

    /**
     * @param stepTokens tokens of a step, over all ranks
     * @param beginNanos when the first step begins
     */
    RecentRate(long stepTokens, long beginNanos) {
        this.stepTokens = stepTokens;
        ends[0] = beginNanos;
    }

    /**
     * Counts a step.
     *
     * @return the rate of the last {@value #STEPS} steps, or of all where there are fewer
     */
    double after(long endNanos) {
        steps++;
        ends[steps % ends.length] = endNanos;
        int counted = Math.min(steps, STEPS);
        long nanos = endNanos - ends[(steps - counted) % ends.length];
        return (double) counted * stepTokens * TimeUnit.SECONDS.toNanos(1) / Math.max(nanos, 1);
    }
}
