package dev.kcp.train;

import java.util.ArrayList;
import java.util.List;

/**
 * The steps of a run, one after another, with their batches and learning rates. While the device is busy with a step the
 * host packs and describes the batches of the next one; what a step computes, and the place in the data after it, do not
 * depend on that.
 */
final class StepSequence {
    private final TrainConfig config;
    private final TrainStep train;
    private final Packer packer;
    private final LearningRate rate;
    private List<PackedBatch> next;
    private RunPosition at;

    /** @param train borrowed; holds the state of the position */
    StepSequence(TrainConfig config, TextCorpus corpus, TrainStep train, RunPosition from) {
        this.config = config;
        this.train = train;
        packer = new Packer(corpus, config.tokens(), config.seed(), from.data());
        rate = new LearningRate(config.learningRate(), config.steps());
        at = from;
    }

    /** Where the run stands: after the last step, before the batches that come next. */
    RunPosition position() {
        return at;
    }

    /** Whether there is a step left to make. */
    boolean hasNext() {
        return at.step() < config.steps();
    }

    /** Makes the next step; collective. */
    TrainStep.Result next() {
        int step = at.step() + 1;
        train.start(step, next == null ? pack() : next, rate.at(step));
        DataPosition behind = packer.position();
        if (step < config.steps()) {
            next = pack();
            train.prepare(next);
        }
        TrainStep.Result result = train.finish();
        at = at.after(result.loss(), behind);
        return result;
    }

    private List<PackedBatch> pack() {
        List<PackedBatch> batches = new ArrayList<>();
        for (int i = 0; i < config.microSteps(); i++) {
            batches.add(packer.next());
        }
        return batches;
    }
}
