package dev.kcp.train;

/** Told about each step, on the rank it belongs to. */
@FunctionalInterface
public interface TrainListener {
    /**
     * Called after a step.
     *
     * @param step counted from 1
     * @param loss mean over the batch before the step's update, in nats per byte
     * @param tokensPerSecond of the run so far, over all ranks
     */
    void onStep(int step, double loss, double tokensPerSecond);
}
