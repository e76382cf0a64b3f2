package dev.kcp.train;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Partition;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;

/**
 * The loss of weights on text that they did not learn from: every document once, packed and sharded like the batches of the
 * run, the last batch shorter. It has a model of its own, with activations, since that of the run holds the batch that comes
 * next. With the same bits on any number of ranks, as the run has them.
 */
final class HeldOutLoss implements AutoCloseable {
    private final TrainConfig config;
    private final TextCorpus corpus;
    private final Communicator communicator;
    private final TrainEngine engine;
    private final CloseStack owners = new CloseStack();
    private final Model model;
    private final Tensor loss;
    private long forwardBytes;

    /** The communicator and the engine are borrowed. */
    HeldOutLoss(TrainConfig config, TextCorpus corpus, Communicator communicator, TrainEngine engine) {
        this.config = config;
        this.corpus = corpus;
        this.communicator = communicator;
        this.engine = engine;
        model = owners.push(new Model(engine, new ParameterTable(config.shape()), communicator, true));
        loss = owners.push(engine.allocate(DType.F64, 1));
    }

    /** Mean over all tokens, in nats per byte, the same on every rank; collective. */
    double of(Weights weights) {
        long before = communicator.stats().bytesSent(Call.Kind.HALO_FORWARD);
        // A document of n bytes gives n + 1 tokens.
        long all = corpus.bytes() + corpus.documents();
        Packer packer = new Packer(corpus, config.tokens(), config.seed());
        double sum = 0;
        for (long left = all; left > 0; left -= config.tokens()) {
            if (left < config.tokens()) {
                packer = new Packer(corpus, (int) left, config.seed(), packer.position());
            }
            sum += ofBatch(packer.next(), weights);
        }
        forwardBytes += communicator.stats().bytesSent(Call.Kind.HALO_FORWARD) - before;
        return sum / all;
    }

    private double ofBatch(PackedBatch batch, Weights weights) {
        Partition partition = Partition.of(config.layout(), batch.cuSeqlens(), communicator.size(), config.align());
        model.prepareLoss(batch, partition, TilePlan.of(config, partition));
        double[] host = new double[1];
        try (KcpContext context = new KcpContext(partition, communicator, engine.conv())) {
            model.loss(context, weights, loss);
            engine.read(loss, MemorySegment.ofArray(host));
        }
        return host[0];
    }

    /** Bytes of halo rows that this rank sent for it. */
    long forwardBytes() {
        return forwardBytes;
    }

    @Override
    public void close() {
        owners.close();
    }
}
