package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
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
    public TrainLoop(TrainConfig config, TextCorpus corpus, Communicator communicator, ConvEngine engine, Gemm gemm) {
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
        CommunicatorStats before = communicator.stats();
        try (CloseStack owners = new CloseStack()) {
            ParameterBuffer values = owners.push(new ParameterBuffer(table));
            ParameterBuffer gradients = owners.push(new ParameterBuffer(table));
            AdamW optimizer = owners.push(new AdamW(table, config.weightDecay(), config.clipNorm()));
            Model model = owners.push(new Model(table, gemm, config.checkpoint()));
            Tensor sums = owners.push(Tensor.zeros(DType.F64, 2));
            Initializer.fill(values, config.seed());
            Packer packer = new Packer(corpus, config.tokens(), config.seed());
            LearningRate rate = new LearningRate(config.learningRate(), config.steps());
            Shard shard = new Shard();
            double firstLoss = Double.NaN;
            double loss = Double.NaN;
            long begin = System.nanoTime();
            for (int step = 1; step <= config.steps(); step++) {
                loss = lossAndGradients(model, shard, packer.next(), values, gradients, sums);
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
            long nanos = System.nanoTime() - begin;
            return summary(table, model, haloBytes(before, sums), firstLoss, loss, nanos);
        }
    }

    /** Mean loss of the batch; gradients summed over the group. */
    private double lossAndGradients(
            Model model,
            Shard shard,
            PackedBatch batch,
            ParameterBuffer values,
            ParameterBuffer gradients,
            Tensor sums) {
        Partition partition = Partition.of(config.layout(), batch.cuSeqlens(), communicator.size(), config.align());
        shard.take(batch, partition, communicator.rank());
        double own;
        try (KcpContext context = new KcpContext(partition, communicator, engine)) {
            own = model.lossAndGradients(context, shard, values, gradients);
        }
        communicator.allReduceFloats(
                "gradients", gradients.address(), values.table().summedElements());
        sums.segment().setAtIndex(ValueLayout.JAVA_DOUBLE, 0, own);
        communicator.allReduceDoubles("loss", sums.address(), 1);
        return sums.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, 0) / batch.tokens();
    }

    /** Bytes that all ranks sent since the run began, mean of a step; collective. */
    private TrainSummary.HaloBytes haloBytes(CommunicatorStats before, Tensor sums) {
        CommunicatorStats after = communicator.stats();
        Call.Kind[] kinds = {Call.Kind.HALO_FORWARD, Call.Kind.HALO_BACKWARD};
        for (int i = 0; i < kinds.length; i++) {
            long sent = after.bytesSent(kinds[i]) - before.bytesSent(kinds[i]);
            sums.segment().setAtIndex(ValueLayout.JAVA_DOUBLE, i, (double) sent / config.steps());
        }
        communicator.allReduceDoubles("halo bytes", sums.address(), kinds.length);
        return new TrainSummary.HaloBytes(
                Math.round(sums.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, 0)),
                Math.round(sums.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, 1)));
    }

    private TrainSummary summary(
            ParameterTable table,
            Model model,
            TrainSummary.HaloBytes haloBytes,
            double firstLoss,
            double finalLoss,
            long nanos) {
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
                TrainSummary.Exchanges.of(model.exchanges(), config.steps()),
                haloBytes,
                TimeUnit.NANOSECONDS.toMillis(nanos));
    }

    private double tokensPerSecond(int steps, long nanos) {
        return (double) steps * config.tokens() * TimeUnit.SECONDS.toNanos(1) / Math.max(nanos, 1);
    }
}
