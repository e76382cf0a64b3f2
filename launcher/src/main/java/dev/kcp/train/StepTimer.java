package dev.kcp.train;

import dev.kcp.comm.Communicator;

/**
 * Makes the steps of a run, and nothing around them, for whoever times them: same batches and programs as {@link TrainLoop},
 * and like there the host prepares a step while the device makes the one before.
 */
public final class StepTimer implements AutoCloseable {
    private final TrainStep train;
    private final StepSequence steps;
    private boolean finite = true;

    /**
     * @param config with as many steps as will be made at most
     * @param communicator the ranks that share each batch; borrowed, as is the engine
     */
    public StepTimer(TrainConfig config, TextCorpus corpus, Communicator communicator, TrainEngine engine) {
        train = new TrainStep(config, communicator, engine);
        steps = new StepSequence(config, corpus, train, RunPosition.START);
    }

    /** Makes one step and waits for it; collective. */
    public void step() {
        finite &= steps.next().isFinite();
    }

    /**
     * Whether all losses and gradients were finite since {@link #forget}; where they are not, the optimizer changes nothing and
     * takes less time.
     */
    public boolean isFinite() {
        return finite;
    }

    /** Forgets whether numbers were finite. */
    public void forget() {
        finite = true;
    }

    @Override
    public void close() {
        train.close();
    }
}
