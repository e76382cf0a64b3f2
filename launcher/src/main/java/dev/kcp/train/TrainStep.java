package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.Partition;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * Weights, optimizer and model of one rank, and the one way in which they move: take a batch, run a step on the device,
 * then read the two numbers that it left.
 */
final class TrainStep implements AutoCloseable {
    /**
     * What a step left.
     *
     * @param loss mean over the batch before the update, in nats per byte
     * @param gradientNorm before it was limited; where it is not finite, nothing was updated
     */
    record Result(double loss, double gradientNorm) {
        boolean isFinite() {
            return Double.isFinite(loss) && Double.isFinite(gradientNorm);
        }
    }

    private final TrainConfig config;
    private final Communicator communicator;
    private final TrainEngine engine;
    private final CloseStack owners = new CloseStack();
    private final Weights weights;
    private final ParameterBuffer gradients;
    private final AdamW optimizer;
    private final Model model;
    private final Tensor results;
    private final BatchContext batches;
    private final StepExchanges exchanges = new StepExchanges();

    /** First values from the configuration's seed. The communicator and the engine are borrowed. */
    TrainStep(TrainConfig config, Communicator communicator, TrainEngine engine) {
        this.config = config;
        this.communicator = communicator;
        this.engine = engine;
        ParameterTable table = new ParameterTable(config.shape());
        weights = owners.push(new Weights(engine, table));
        gradients = owners.push(new ParameterBuffer(engine, DType.F32, table));
        optimizer = owners.push(new AdamW(engine, table, config.weightDecay(), config.clipNorm()));
        model = owners.push(new Model(engine, table, communicator, config.checkpoint()));
        results = owners.push(engine.allocate(DType.F64, 2, 1));
        batches = owners.push(new BatchContext(config, communicator, engine.conv()));
        try (ParameterBuffer host = new ParameterBuffer(table)) {
            Initializer.fill(host, config.seed());
            weights.load(host);
        }
    }

    /**
     * Makes one step; collective.
     *
     * @param step counted from 1
     */
    Result run(int step, PackedBatch batch, double learningRate) {
        Partition partition = Partition.of(config.layout(), batch.cuSeqlens(), communicator.size(), config.align());
        TilePlan tiles = config.sameBits() ? TilePlan.exact(partition, config.align()) : TilePlan.whole(partition);
        model.prepare(batch, partition, tiles);
        optimizer.prepare(step, learningRate);
        batches.take(partition);
        engine.step(batches.isKept() ? List.of(this, tiles, batches.context()) : null, () -> {
            model.lossAndGradients(batches.context(), weights, gradients, results.rows(0, 1));
            optimizer.step(weights, gradients, results.rows(1, 2));
        });
        exchanges.stepDone(model.exchanges());
        double[] host = new double[2];
        engine.read(results, MemorySegment.ofArray(host));
        return new Result(host[0] / batch.tokens(), host[1]);
    }

    Weights weights() {
        return weights;
    }

    AdamW optimizer() {
        return optimizer;
    }

    /** Exchanges of each layer so far. */
    List<ExchangeCounts> exchanges() {
        return exchanges.total();
    }

    @Override
    public void close() {
        owners.close();
    }
}
