package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Partition;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * Weights, optimizer and model of one rank, and the one way in which they move: {@link #start} gives the step's batches
 * to the device, {@link #finish} reads the two numbers that they left. In between the host may {@link #prepare} the next
 * batch.
 */
final class TrainStep implements AutoCloseable {
    /**
     * What a step left.
     *
     * @param loss mean over the step's tokens before the update, in nats per byte
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
    private final BatchContext batchContext;
    private final StepExchanges exchanges = new StepExchanges();
    private final Verifier verifier;
    private final MicroSteps micro;
    private Prepared prepared;
    private int step;
    private long tokens;
    private long beginNanos;
    private long waitedNanos;
    private long optimizerNanos;
    private StepTimes times;

    /** First values from the configuration's seed. The communicator and the engine are borrowed. */
    TrainStep(TrainConfig config, Communicator communicator, TrainEngine engine) {
        this(config, communicator, engine, false);
    }

    /** @param verify whether each step is compared with a run on one rank, which every rank makes for itself */
    TrainStep(TrainConfig config, Communicator communicator, TrainEngine engine, boolean verify) {
        this.config = config;
        this.communicator = communicator;
        this.engine = engine;
        ParameterTable table = new ParameterTable(config.shape());
        weights = owners.push(new Weights(engine, table));
        gradients = owners.push(new ParameterBuffer(engine, DType.F32, table));
        optimizer = owners.push(new AdamW(engine, table, config.weightDecay(), config.clipNorm()));
        model = owners.push(new Model(engine, table, communicator, Recompute.of(config), config.microSteps()));
        results = owners.push(engine.allocate(DType.F64, 2, 1));
        batchContext = owners.push(new BatchContext(config, communicator, engine.conv()));
        verifier = verify ? owners.push(new Verifier(config, table, communicator, engine)) : null;
        micro = verify || config.microSteps() > 1
                ? owners.push(new MicroSteps(engine, table, config.shape().layers()))
                : null;
        try (ParameterBuffer host = new ParameterBuffer(table)) {
            Initializer.fill(host, config.seed());
            weights.load(host);
        }
    }

    /** Makes one step of one batch; collective. */
    Result run(int step, PackedBatch batch, double learningRate) {
        return run(step, List.of(batch), learningRate);
    }

    /** As {@link #start} and {@link #finish}, with nothing in between. */
    Result run(int step, List<PackedBatch> batches, double learningRate) {
        start(step, batches, learningRate);
        return finish();
    }

    /**
     * Gives one step to the device; collective.
     *
     * @param number of the step, counted from 1
     * @param batches as many as the configuration says
     */
    void start(int number, List<PackedBatch> batches, double learningRate) {
        if (batches.size() != config.microSteps()) {
            throw new IllegalArgumentException("a step takes the batches that it was set up for: batches="
                    + batches.size() + " microSteps=" + config.microSteps());
        }
        beginNanos = System.nanoTime();
        waitedNanos = communicator.stats().waitNanos();
        optimizerNanos = 0;
        step = number;
        tokens = batches.stream().mapToLong(PackedBatch::tokens).sum();
        optimizer.prepare(step, learningRate);
        if (micro == null) {
            one(batches.getFirst());
        } else {
            many(batches);
        }
        exchanges.stepDone(model.exchanges());
    }

    /**
     * Cuts and describes the batch that {@link #start} is given next, and puts it behind the work that the device has,
     * so that the device need not wait for the host between two steps. Ranks do it in the same order. Of several batches
     * of a step none is taken ahead: each takes the room of the one before.
     */
    void prepare(List<PackedBatch> next) {
        if (micro == null) {
            take(next.getFirst());
        }
    }

    /** Waits until the step is done. */
    Result finish() {
        double[] host = new double[2];
        engine.read(results, MemorySegment.ofArray(host));
        times = new StepTimes(
                System.nanoTime() - beginNanos, communicator.stats().waitNanos() - waitedNanos, optimizerNanos);
        return new Result(host[0] / tokens, host[1]);
    }

    private void one(PackedBatch batch) {
        if (prepared == null || prepared.batch() != batch) {
            take(batch);
        }
        KcpContext context = batchContext.context();
        Object same = batchContext.isKept() ? List.of(this, prepared.tiles(), context) : null;
        engine.step(same, () -> {
            model.lossAndGradients(context, weights, gradients, results.rows(0, 1));
            moveWeights();
        });
    }

    private void take(PackedBatch batch) {
        prepared = prepare(batch);
        batchContext.take(prepared.partition());
    }

    /** Batch after batch, and not as a whole: between two of them rows come from the host. */
    private void many(List<PackedBatch> batches) {
        try (CloseStack contexts = new CloseStack()) {
            try {
                for (PackedBatch batch : batches) {
                    Partition partition = prepare(batch).partition();
                    KcpContext context = contexts.push(new KcpContext(partition, communicator, engine.conv()));
                    ConvProbe probe = verifier == null ? ConvProbe.NONE : verifier.expect(batch, partition, weights);
                    model.accumulate(context, weights, gradients, results.rows(0, 1), micro, probe);
                }
                model.finish(micro, gradients);
            } finally {
                micro.end();
            }
        }
        if (verifier != null) {
            verifier.check(step, gradients, results.rows(0, 1));
        }
        moveWeights();
    }

    /** How the batch that the model has taken is cut and multiplied. */
    private record Prepared(PackedBatch batch, Partition partition, TilePlan tiles) {}

    private Prepared prepare(PackedBatch batch) {
        Partition partition = Partition.of(config.layout(), batch.cuSeqlens(), communicator.size(), config.align());
        TilePlan tiles = TilePlan.of(config, partition);
        model.prepare(batch, partition, tiles);
        return new Prepared(batch, partition, tiles);
    }

    private void moveWeights() {
        long begin = System.nanoTime();
        optimizer.step(weights, gradients, results.rows(1, 2));
        optimizerNanos = System.nanoTime() - begin;
    }

    /** Where the last step's time went. */
    StepTimes times() {
        return times;
    }

    /** Takes a saved state. */
    void restore(StateBuffers from) {
        weights.load(from.weights());
        engine.write(optimizer.first().flat(), from.first().flat().segment());
        engine.write(optimizer.second().flat(), from.second().flat().segment());
    }

    /** Copies the state to the host. */
    void copyTo(StateBuffers to) {
        engine.read(weights.values().flat(), to.weights().flat().segment());
        engine.read(optimizer.first().flat(), to.first().flat().segment());
        engine.read(optimizer.second().flat(), to.second().flat().segment());
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

    /** Bytes of this rank's activations, with room for its greatest shard so far. */
    long activationBytes() {
        return model.activationBytes();
    }

    @Override
    public void close() {
        owners.close();
    }
}
