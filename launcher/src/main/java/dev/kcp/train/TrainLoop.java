package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A training run as one rank sees it. Every rank packs the same batches, computes its own shard, and makes the same
 * optimizer step from the summed gradients, so parameters stay equal without ever being sent.
 */
public final class TrainLoop {
    private final TrainConfig config;
    private final TextCorpus corpus;
    private final Communicator communicator;
    private final TrainEngine engine;
    private final Saving saving;
    private final boolean verify;
    private final HeldOutText heldOut;
    private final List<Long> stepNanos = new ArrayList<>();
    private boolean stopped;

    /**
     * A run that saves nothing.
     *
     * @param communicator the ranks that share each batch; borrowed, as is the engine
     * @param engine used by this thread alone
     */
    public TrainLoop(TrainConfig config, TextCorpus corpus, Communicator communicator, TrainEngine engine) {
        this(config, corpus, communicator, engine, null, false, null);
    }

    /**
     * A run; {@link #run} starts it.
     *
     * @param saving how the run is saved and gone on with, or null
     * @param verify whether every step is compared with a run on one rank
     * @param heldOut text whose loss is told as the run goes, or null
     */
    public TrainLoop(
            TrainConfig config,
            TextCorpus corpus,
            Communicator communicator,
            TrainEngine engine,
            Saving saving,
            boolean verify,
            HeldOutText heldOut) {
        this.config = config;
        this.corpus = corpus;
        this.communicator = communicator;
        this.engine = engine;
        this.saving = saving;
        this.verify = verify;
        this.heldOut = heldOut;
    }

    /**
     * Trains until all steps are made, or until some rank is asked to stop; collective.
     *
     * @return the same numbers on every rank but for times
     * @throws KcpException if the group fails or was started with different settings, with {@code RANK_FAILED} if the
     *     loss leaves the finite numbers, with {@code DISAGREEMENT} if a verified step differs from a run on one rank
     */
    public TrainSummary run(TrainListener listener) {
        RunAgreement.check(config + " verify=" + verify + savingText() + heldOutText(), corpus, communicator);
        CommunicatorStats before = communicator.stats();
        try (TrainStep train = new TrainStep(config, communicator, engine, verify);
                RunStore store = saving == null ? null : new RunStore(saving, config, corpus, communicator, train);
                HeldOutLoss look =
                        heldOut == null ? null : new HeldOutLoss(config, heldOut.corpus(), communicator, engine)) {
            RunPosition from = store == null ? RunPosition.START : store.restore();
            StepSequence steps = new StepSequence(config, corpus, train, from);
            listener.onBegin(from.step());
            long begin = System.nanoTime();
            Double heldOutLoss = null;
            RecentRate rate = new RecentRate(config.stepTokens(), begin);
            while (steps.hasNext() && !stopped) {
                TrainStep.Result result = steps.next();
                int step = steps.position().step();
                if (!result.isFinite()) {
                    throw new KcpException(
                            KcpException.Code.RANK_FAILED,
                            "training left the finite numbers: step=" + step + " loss=" + result.loss()
                                    + " gradientNorm=" + result.gradientNorm());
                }
                double tokensPerSecond = rate.after(System.nanoTime());
                heldOutLoss = null;
                if (look != null && heldOut.isDue(step, config.steps())) {
                    heldOutLoss = look.of(train.weights());
                    listener.onHeldOut(step, heldOutLoss);
                }
                listener.onStep(step, result.loss(), tokensPerSecond);
                stepNanos.add(train.times().totalNanos());
                listener.onTimes(step, train.times());
                saveIfDue(store, steps.position(), listener);
            }
            long nanos = System.nanoTime() - begin;
            if (look != null && stepNanos.isEmpty()) {
                heldOutLoss = look.of(train.weights());
            }
            return summary(train, before, from, steps.position(), nanos, look, heldOutLoss);
        }
    }

    private void saveIfDue(RunStore store, RunPosition at, TrainListener listener) {
        if (store == null) {
            return;
        }
        stopped = at.step() < config.steps() && store.isStopAsked();
        if (stopped || store.isDue(at.step(), config.steps())) {
            listener.onSave(at.step());
            store.save(at);
        }
    }

    /** Whether the run ended early, with its state saved, because it was asked to. */
    public boolean wasStopped() {
        return stopped;
    }

    private String savingText() {
        return saving == null
                ? ""
                : " saving=true every=" + saving.every() + " resume=" + saving.resume() + " newSchedule="
                        + saving.newSchedule();
    }

    private String heldOutText() {
        return heldOut == null
                ? ""
                : " heldOutEvery=" + heldOut.every() + " heldOutDigest="
                        + Long.toHexString(heldOut.corpus().digest());
    }

    private static long sent(CommunicatorStats before, CommunicatorStats after, Call.Kind kind) {
        return after.bytesSent(kind) - before.bytesSent(kind);
    }

    /** Collective. */
    private TrainSummary summary(
            TrainStep train,
            CommunicatorStats before,
            RunPosition from,
            RunPosition at,
            long nanos,
            HeldOutLoss look,
            Double heldOutLoss) {
        int made = at.step() - from.step();
        CommunicatorStats after = communicator.stats();
        ByteBuffer mine = ByteBuffer.allocate(3 * Long.BYTES)
                .putLong(sent(before, after, Call.Kind.HALO_FORWARD) - (look == null ? 0 : look.forwardBytes()))
                .putLong(sent(before, after, Call.Kind.HALO_BACKWARD))
                .putLong(train.activationBytes());
        List<ByteBuffer> all = communicator.host().allGather("halo and activation bytes", mine.array()).stream()
                .map(ByteBuffer::wrap)
                .toList();
        return new TrainSummary(
                at.firstLoss(),
                at.lastLoss(),
                at.step(),
                Math.round(tokensPerSecond(made, nanos)),
                communicator.size(),
                config.layout().label(),
                config.shape().layers(),
                config.shape().channels(),
                config.tokens(),
                train.weights().values().table().parameters(),
                TrainSummary.Exchanges.of(train.exchanges(), made),
                new TrainSummary.HaloBytes(meanOfStep(all, 0, made), meanOfStep(all, Long.BYTES, made)),
                TimeUnit.NANOSECONDS.toMillis(nanos),
                config.microSteps(),
                from.step(),
                all.stream().mapToLong(one -> one.getLong(2 * Long.BYTES)).max().orElseThrow(),
                medianStepMillis(),
                heldOutLoss);
    }

    /** Rounded to microseconds. */
    private double medianStepMillis() {
        List<Long> sorted = stepNanos.stream().sorted().toList();
        return sorted.isEmpty() ? 0 : Math.round(sorted.get(sorted.size() / 2) / 1e3) / 1e3;
    }

    private static long meanOfStep(List<ByteBuffer> all, int at, int steps) {
        long sum = all.stream().mapToLong(one -> one.getLong(at)).sum();
        return Math.round((double) sum / Math.max(steps, 1));
    }

    private double tokensPerSecond(int steps, long nanos) {
        return (double) steps * config.stepTokens() * TimeUnit.SECONDS.toNanos(1) / Math.max(nanos, 1);
    }
}
