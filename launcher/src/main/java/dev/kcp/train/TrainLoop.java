package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
import java.nio.ByteBuffer;
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

    /**
     * @param communicator the ranks that share each batch; borrowed, as is the engine
     * @param engine used by this thread alone
     */
    public TrainLoop(TrainConfig config, TextCorpus corpus, Communicator communicator, TrainEngine engine) {
        this.config = config;
        this.corpus = corpus;
        this.communicator = communicator;
        this.engine = engine;
    }

    /**
     * Trains for all steps; collective.
     *
     * @return the same numbers on every rank but for times
     * @throws KcpException if the group fails or was started with different settings, or with {@code RANK_FAILED} if the loss leaves the finite numbers
     */
    public TrainSummary run(TrainListener listener) {
        RunAgreement.check(config, corpus, communicator);
        CommunicatorStats before = communicator.stats();
        try (TrainStep train = new TrainStep(config, communicator, engine)) {
            Packer packer = new Packer(corpus, config.tokens(), config.seed());
            LearningRate rate = new LearningRate(config.learningRate(), config.steps());
            double firstLoss = Double.NaN;
            double loss = Double.NaN;
            long begin = System.nanoTime();
            for (int step = 1; step <= config.steps(); step++) {
                TrainStep.Result result = train.run(step, packer.next(), rate.at(step));
                loss = result.loss();
                if (!result.isFinite()) {
                    throw new KcpException(
                            KcpException.Code.RANK_FAILED,
                            "training left the finite numbers: step=" + step + " loss=" + loss + " gradientNorm="
                                    + result.gradientNorm());
                }
                firstLoss = step == 1 ? loss : firstLoss;
                listener.onStep(step, loss, tokensPerSecond(step, System.nanoTime() - begin));
            }
            long nanos = System.nanoTime() - begin;
            return summary(train, haloBytes(before), firstLoss, loss, nanos);
        }
    }

    /** Bytes that all ranks sent since the run began, mean of a step; collective. */
    private TrainSummary.HaloBytes haloBytes(CommunicatorStats before) {
        CommunicatorStats after = communicator.stats();
        ByteBuffer mine = ByteBuffer.allocate(2 * Long.BYTES)
                .putLong(sent(before, after, Call.Kind.HALO_FORWARD))
                .putLong(sent(before, after, Call.Kind.HALO_BACKWARD));
        List<ByteBuffer> all = communicator.allGather("halo bytes", mine.array()).stream()
                .map(ByteBuffer::wrap)
                .toList();
        return new TrainSummary.HaloBytes(meanOfStep(all, 0), meanOfStep(all, Long.BYTES));
    }

    private static long sent(CommunicatorStats before, CommunicatorStats after, Call.Kind kind) {
        return after.bytesSent(kind) - before.bytesSent(kind);
    }

    private long meanOfStep(List<ByteBuffer> all, int at) {
        return Math.round(
                (double) all.stream().mapToLong(one -> one.getLong(at)).sum() / config.steps());
    }

    private TrainSummary summary(
            TrainStep train, TrainSummary.HaloBytes haloBytes, double firstLoss, double finalLoss, long nanos) {
        return new TrainSummary(
                firstLoss,
                finalLoss,
                config.steps(),
                Math.round(tokensPerSecond(config.steps(), nanos)),
                communicator.size(),
                config.layout().label(),
                config.shape().layers(),
                config.shape().channels(),
                config.tokens(),
                train.weights().values().table().parameters(),
                TrainSummary.Exchanges.of(train.exchanges(), config.steps()),
                haloBytes,
                TimeUnit.NANOSECONDS.toMillis(nanos));
    }

    private double tokensPerSecond(int steps, long nanos) {
        return (double) steps * config.tokens() * TimeUnit.SECONDS.toNanos(1) / Math.max(nanos, 1);
    }
}
