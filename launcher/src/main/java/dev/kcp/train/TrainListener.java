package dev.kcp.train;

/** Told about each step, on the rank it belongs to. */
@FunctionalInterface
public interface TrainListener {
    /**
     * Called after a step.
     *
     * @param step counted from 1
     * @param loss mean over the batch before the step's update, in nats per byte
     * @param tokensPerSecond of the last 20 steps at most, over all ranks
     */
    void onStep(int step, double loss, double tokensPerSecond);

    /**
     * Called once, before the first step.
     *
     * @param stepsBefore steps that an earlier run made and this one goes on from, 0 for a run from the start
     */
    default void onBegin(int stepsBefore) {}

    /**
     * Called before {@link #onStep} of the same step, where the run looked at its held-out text after it.
     *
     * @param step counted from 1
     * @param loss mean over that text after the step's update, in nats per byte
     */
    default void onHeldOut(int step, double loss) {}

    /**
     * Called after {@link #onStep} with where the step's time went.
     *
     * @param step counted from 1
     */
    default void onTimes(int step, StepTimes times) {}

    /**
     * Called before the state after a step is saved: what was told until then is to outlive a power cut, as the state does.
     *
     * @param step counted from 1
     */
    default void onSave(int step) {}

    /** Tells one after the other. */
    static TrainListener both(TrainListener first, TrainListener second) {
        return new TrainListener() {
            @Override
            public void onBegin(int stepsBefore) {
                first.onBegin(stepsBefore);
                second.onBegin(stepsBefore);
            }

            @Override
            public void onHeldOut(int step, double loss) {
                first.onHeldOut(step, loss);
                second.onHeldOut(step, loss);
            }

            @Override
            public void onStep(int step, double loss, double tokensPerSecond) {
                first.onStep(step, loss, tokensPerSecond);
                second.onStep(step, loss, tokensPerSecond);
            }

            @Override
            public void onTimes(int step, StepTimes times) {
                first.onTimes(step, times);
                second.onTimes(step, times);
            }

            @Override
            public void onSave(int step) {
                first.onSave(step);
                second.onSave(step);
            }
        };
    }
}
