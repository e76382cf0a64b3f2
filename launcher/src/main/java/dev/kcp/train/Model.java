package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Partition;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * The language model on one rank: token vectors, layers, a last norm, and the token vectors again as output matrix. It
 * holds the tokens, activations and sums of this rank's shard; parameters and gradients are the caller's.
 */
final class Model implements AutoCloseable {
    /** Elements of a cache line, of which slices of gradients are made. */
    private static final int SLICE_UNIT = 16;

    private final TrainEngine engine;
    private final ParameterTable table;
    private final Communicator communicator;
    private final boolean checkpointed;
    private final Shard shard;
    private final Activations activations;
    private final StepSums sums;
    private final GroupReduction gradientReduction;
    private final GroupReduction lossReduction;
    private final List<Layer> layers = new ArrayList<>();
    private TilePlan plan;

    Model(TrainEngine engine, ParameterTable table, Communicator communicator, boolean checkpointed) {
        this.engine = engine;
        this.table = table;
        this.communicator = communicator;
        this.checkpointed = checkpointed;
        shard = new Shard(engine);
        activations = new Activations(engine, table.shape(), checkpointed);
        sums = new StepSums(engine, table);
        gradientReduction =
                new GroupReduction("gradients", engine, communicator, DType.F32, table.summedElements(), SLICE_UNIT);
        lossReduction = new GroupReduction("loss", engine, communicator, DType.F64, 1, 1);
        for (int layer = 0; layer < table.shape().layers(); layer++) {
            layers.add(new Layer(table, layer));
        }
    }

    /** Takes this rank's tokens of the batch that comes next, and makes room for all that a pass over them writes. */
    void prepare(PackedBatch batch, Partition partition, TilePlan tilePlan) {
        plan = tilePlan;
        Tiles tiles = tilePlan.ranks().get(communicator.rank());
        shard.take(batch, partition, communicator.rank());
        activations.reserve(shard.tokens());
        sums.reserve(tiles.nodes().size());
        gradientReduction.reserve(tilePlan);
        lossReduction.reserve(tilePlan);
    }

    /**
     * One forward and backward pass over the prepared batch; collective. It reads nothing back to the host.
     *
     * @param context partition and communicator of the batch
     * @param gradients overwritten: gradients of the mean loss over the whole batch, the same on every rank
     * @param loss FP64, one element: the sum of the loss over the whole batch's tokens, in nats
     */
    void lossAndGradients(KcpContext context, Weights weights, ParameterBuffer gradients, Tensor loss) {
        Tiles tiles = plan.ranks().get(communicator.rank());
        StepState state = new StepState(engine, context, tiles, activations, weights, sums, gradients);
        List<LayerPass> passes = new ArrayList<>();
        try (CloseStack owners = new CloseStack()) {
            engine.embed(shard.inputs(), weights.matrix(table.embedding()), activations.residual(0));
            for (Layer layer : layers) {
                LayerPass pass = owners.push(new LayerPass(layer, state, checkpointed));
                passes.add(pass);
                pass.forward();
            }
            output(state, context.partition().cuSeqlens().tokens());
            passes.reversed().forEach(LayerPass::backward);
            engine.embedBackward(
                    tiles,
                    activations.logits(),
                    activations.finalNormed(),
                    shard.inputs(),
                    activations.streamGradient(),
                    sums.of(table.embedding()));
            passes.forEach(LayerPass::reduce);
            gradientReduction.run(plan, sums.gradients(), gradients.elements(0, table.summedElements()));
            lossReduction.run(plan, sums.losses(), loss);
        }
    }

    /** Exchanges of each layer so far. */
    List<ExchangeCounts> exchanges() {
        return layers.stream().map(Layer::exchanges).toList();
    }

    /** Loss, and the gradient of the residual stream behind the last layer. */
    private void output(StepState state, int batchTokens) {
        Tiles tiles = state.tiles();
        Tensor last = activations.residual(table.shape().layers());
        Tensor gain = state.weights().vector(table.finalGain());
        Tensor vectors = state.weights().matrix(table.embedding());
        Tensor normed = activations.finalNormed();
        Tensor logits = activations.logits();
        engine.norm(last, gain, normed, activations.finalInverseRms());
        engine.multiply(tiles, normed, vectors, true, null, logits);
        engine.crossEntropy(tiles, logits, shard.targets(), 1f / batchTokens, sums.losses());
        Tensor dNormed = activations.normedGradient();
        engine.multiply(tiles, logits, vectors, false, null, dNormed);
        Tensor dLast = activations.streamGradient();
        engine.zero(dLast);
        engine.normBackward(
                tiles, last, gain, activations.finalInverseRms(), dNormed, dLast, sums.of(table.finalGain()));
    }

    @Override
    public void close() {
        lossReduction.close();
        gradientReduction.close();
        sums.close();
        activations.close();
        shard.close();
    }
}
