package dev.kcp.train;

/**
 * Where a run stands between two steps.
 *
 * @param step steps made
 * @param data where the next batch begins
 * @param firstLoss loss of the first step, not a number before it
 * @param lastLoss loss of the last step made, not a number before the first
 */
record RunPosition(int step, DataPosition data, double firstLoss, double lastLoss) {
    static final RunPosition START = new RunPosition(0, DataPosition.START, Double.NaN, Double.NaN);

    RunPosition {
        if (step < 0) {
            throw new IllegalArgumentException("steps made cannot be negative: step=" + step);
        }
    }

    /** The position after one more step. */
    RunPosition after(double loss, DataPosition next) {
        return new RunPosition(step + 1, next, step == 0 ? loss : firstLoss, loss);
    }
}
