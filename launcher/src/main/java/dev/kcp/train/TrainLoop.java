package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Partition;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.concurrent.TimeUnit;

/**
 * A training run as one rank sees it. Every rank packs the same batches, computes its own shard, and makes the same
 * optimizer step from the summed gradients, so parameters stay equal without ever being sent.
 */
public final class TrainLoop {
    private final TrainConfig config;
    private final TextCorpus corpus;
    private final Communicator communicator;
    private final ConvEngine engine;
    private final Gemm gemm;

    /**
     * @param communicator the ranks that share each batch; borrowed, as is the engine
     * @param gemm used by this thread alone
     */
    public TrainLoop(
            TrainConfig config, TextCorpus corpus, Communicator communicator, ConvEngine engine, Gemm gemm) {
        this.config = config;
        this.corpus = corpus;
        this.communicator = communicator;
        this.engine = engine;
        this.gemm = gemm;
    }

    /**
     * Trains for all steps; collective.
     *
     * @return the same numbers on every rank but for times
     * @throws KcpException if the group fails or was started with different settings, or with {@code RANK_FAILED} if the loss leaves the finite numbers
     */
    public TrainSummary run(TrainListener listener) {
        RunAgreement.check(config, corpus, communicator);
        ParameterTable table = new ParameterTable(config.shape());
        ExchangeCounter counter = new ExchangeCounter(communicator);
        try (CloseStack owners = new CloseStack()) {
            ParameterBuffer values = owners.push(new ParameterBuffer(table));
            ParameterBuffer gradients = owners.push(new ParameterBuffer(table));
            AdamW optimizer = owners.push(new AdamW(table, config.weightDecay(), config.clipNorm()));
            Model model = owners.push(new Model(table, gemm, counter, config.checkpoint()));
            Tensor sums = owners.push(Tensor.zeros(DType.F64, 2));
            Initializer.fill(values, config.seed());
            Packer packer = new Packer(corpus, config.tokens(), config.seed());
            LearningRate rate = new LearningRate(config.learningRate(), config.steps());
            Shard shard = new Shard();
            double firstLoss = Double.NaN;
            double loss = Double.NaN;
            long begin = System.nanoTime();
            for (int step = 1; step <= config.steps(); step++) {
                loss = lossAndGradients(model, shard, packer.next(), counter, values, gradients, sums);
                double norm = optimizer.step(values, gradients, rate.at(step));
                if (!Double.isFinite(loss) || !Double.isFinite(norm)) {
                    throw new KcpException(
                            KcpException.Code.RANK_FAILED,
                            "training left the finite numbers: step=" + step + " loss=" + loss + " gradientNorm="
                                    + norm);
                }
                firstLoss = step == 1 ? loss : firstLoss;
                listener.onStep(step, loss, tokensPerSecond(step, System.nanoTime() - begin));
            }
            return summary(table, counter, sums, firstLoss, loss, System.nanoTime() - begin);
        }
    }

    /** Mean loss of the batch; gradients summed over the group. */
    private double lossAndGradients(
            Model model,
            Shard shard,
            PackedBatch batch,
            ExchangeCounter counter,
            ParameterBuffer values,
            ParameterBuffer gradients,
            Tensor sums) {
        Partition partition =
                Partition.of(config.layout(), batch.cuSeqlens(), communicator.size(), config.align());
        shard.take(batch, partition, communicator.rank());
        double own;
        try (KcpContext context = new KcpContext(partition, counter, engine)) {
            own = model.lossAndGradients(context, shard, values, gradients);
        }
        communicator.allReduceFloats(
                "gradients", gradients.address(), values.table().summedElements());
        sums.segment().setAtIndex(ValueLayout.JAVA_DOUBLE, 0, own);
        communicator.allReduceDoubles("loss", sums.address(), 1);
        return sums.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, 0) / batch.tokens();
    }

    private TrainSummary summary(
            ParameterTable table,
            ExchangeCounter counter,
            Tensor sums,
            double firstLoss,
            double finalLoss,
            long nanos) {
        sums.segment()
                .setAtIndex(ValueLayout.JAVA_DOUBLE, 0, counter.sentBytes(ExchangeCounter.Pass.FORWARD)
                        + counter.sentBytes(ExchangeCounter.Pass.RECOMPUTE));
        sums.segment()
                .setAtIndex(ValueLayout.JAVA_DOUBLE, 1, counter.sentBytes(ExchangeCounter.Pass.BACKWARD));
        communicator.allReduceDoubles("halo bytes", sums.address(), 2);
        double forwardBytes = sums.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, 0) / config.steps();
        double backwardBytes = sums.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, 1) / config.steps();
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
                table.parameters(),
                TrainSummary.Exchanges.of(counter, (long) config.shape().layers() * config.steps()),
                new TrainSummary.HaloBytes(Math.round(forwardBytes), Math.round(backwardBytes)),
                TimeUnit.NANOSECONDS.toMillis(nanos));
    }

    private double tokensPerSecond(int steps, long nanos) {
        return (double) steps * config.tokens() * TimeUnit.SECONDS.toNanos(1) / Math.max(nanos, 1);
    }
}
