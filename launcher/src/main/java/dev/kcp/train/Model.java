package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpContext;
import dev.kcp.core.NodeReduction;
import dev.kcp.core.Partition;
import dev.kcp.tensor.CloseStack;
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
    private final Recompute recompute;
    private final int microSteps;
    private final Shard shard;
    private final Activations activations;
    private final StepSums sums;
    private final NodeReduction gradientReduction;
    private final NodeReduction lossReduction;
    private final List<Layer> layers = new ArrayList<>();
    private TilePlan plan;

    Model(TrainEngine engine, ParameterTable table, Communicator communicator, boolean checkpointed) {
        this(engine, table, communicator, checkpointed ? Recompute.WITH_HANDLE : Recompute.NONE, 1);
    }

    /** @param microSteps batches over which a step's loss is a mean */
    Model(TrainEngine engine, ParameterTable table, Communicator communicator, Recompute recompute, int microSteps) {
        this.engine = engine;
        this.table = table;
        this.communicator = communicator;
        this.recompute = recompute;
        this.microSteps = microSteps;
        shard = new Shard(engine);
        activations = new Activations(engine, table.shape(), recompute != Recompute.NONE);
        sums = new StepSums(engine, table);
        gradientReduction = new NodeReduction(
                "gradients", engine.conv(), communicator, DType.F32, 1, table.summedElements(), SLICE_UNIT);
        lossReduction = new NodeReduction("loss", engine.conv(), communicator, DType.F64, 1, 1, 1);
        for (int layer = 0; layer < table.shape().layers(); layer++) {
            layers.add(new Layer(table, layer));
        }
    }

    /** Takes this rank's tokens of the batch that comes next, and makes room for all that a pass over them writes. */
    void prepare(PackedBatch batch, Partition partition, TilePlan tilePlan) {
        prepareLoss(batch, partition, tilePlan);
        sums.reserve(tilePlan.ranks().get(communicator.rank()).nodes().size());
        gradientReduction.prepare(tilePlan.treeTokens(), tilePlan.nodeKeys());
    }

    /** As {@link #prepare}, for {@link #loss} alone. */
    void prepareLoss(PackedBatch batch, Partition partition, TilePlan tilePlan) {
        plan = tilePlan;
        shard.take(batch, partition, communicator.rank());
        activations.reserve(shard.tokens());
        sums.reserveLosses(tilePlan.ranks().get(communicator.rank()).nodes().size());
        lossReduction.prepare(tilePlan.treeTokens(), tilePlan.nodeKeys());
    }

    /**
     * The prepared batch's loss and nothing else; collective.
     *
     * @param loss FP64, one element: the sum over the whole batch's tokens, in nats
     */
    void loss(KcpContext context, Weights weights, Tensor loss) {
        StepState state = state(context, weights, null, ConvProbe.NONE);
        embed(weights);
        for (Layer layer : layers) {
            layer.convolve(state, null).close();
            layer.project(state);
        }
        lossOfLast(state);
        lossReduction.run(sums.losses(), loss);
    }

    /**
     * One forward and backward pass over the prepared batch; collective. It reads nothing back to the host.
     *
     * @param context partition and communicator of the batch
     * @param gradients overwritten: gradients of the mean loss over the whole batch, the same on every rank
     * @param loss FP64, one element: the sum of the loss over the whole batch's tokens, in nats
     */
    void lossAndGradients(KcpContext context, Weights weights, ParameterBuffer gradients, Tensor loss) {
        try (CloseStack owners = new CloseStack()) {
            StepState state = state(context, weights, gradients, ConvProbe.NONE);
            List<LayerPass> passes = pass(state, owners);
            for (int layer = 0; layer < layers.size(); layer++) {
                layers.get(layer).reduce(engine, List.of(passes.get(layer).partial()), gradients);
            }
            gradientReduction.run(sums.gradients(), gradients.elements(0, table.summedElements()));
            lossReduction.run(sums.losses(), loss);
        }
    }

    /**
     * As {@link #lossAndGradients}, for one of several batches of a step: adds to gradients and loss, but for the
     * convolutions' gradients, which {@link #finish} sums.
     *
     * @param context open until after {@link #finish}
     */
    void accumulate(
            KcpContext context,
            Weights weights,
            ParameterBuffer gradients,
            Tensor loss,
            MicroSteps micro,
            ConvProbe probe) {
        boolean isFirst = micro.isFirst();
        ParameterBuffer to = isFirst ? gradients : micro.batchGradients();
        Tensor lossTo = isFirst ? loss : micro.batchLoss();
        List<LayerPass> passes = pass(state(context, weights, to, probe), micro.owners());
        gradientReduction.run(sums.gradients(), to.elements(0, table.summedElements()));
        lossReduction.run(sums.losses(), lossTo);
        if (!isFirst) {
            engine.add(gradients.elements(0, table.summedElements()), to.elements(0, table.summedElements()));
            engine.add(loss, lossTo);
        }
        for (int layer = 0; layer < layers.size(); layer++) {
            micro.add(layer, passes.get(layer).partial());
        }
    }

    /** Sums the convolutions' gradients over the group and all batches; collective. */
    void finish(MicroSteps micro, ParameterBuffer gradients) {
        for (int layer = 0; layer < layers.size(); layer++) {
            layers.get(layer).reduce(engine, micro.of(layer), gradients);
        }
    }

    private StepState state(KcpContext context, Weights weights, ParameterBuffer gradients, ConvProbe probe) {
        Tiles tiles = plan.ranks().get(communicator.rank());
        return new StepState(engine, context, tiles, activations, weights, sums, gradients, probe);
    }

    /** Forward and backward of the prepared batch: leaves this rank's sums. */
    private List<LayerPass> pass(StepState state, CloseStack owners) {
        List<LayerPass> passes = new ArrayList<>();
        embed(state.weights());
        for (Layer layer : layers) {
            LayerPass pass = owners.push(new LayerPass(layer, state, recompute));
            passes.add(pass);
            pass.forward();
        }
        output(state);
        passes.reversed().forEach(LayerPass::backward);
        engine.embedBackward(
                state.tiles(),
                activations.logits(),
                activations.finalNormed(),
                shard.inputs(),
                activations.streamGradient(),
                sums.of(table.embedding()));
        return passes;
    }

    /** Bytes of this rank's activations, with room for its greatest shard so far. */
    long activationBytes() {
        return activations.bytes();
    }

    /** Exchanges of each layer so far. */
    List<ExchangeCounts> exchanges() {
        return layers.stream().map(Layer::exchanges).toList();
    }

    private void embed(Weights weights) {
        engine.embed(shard.inputs(), weights.matrix(table.embedding()), activations.residual(0));
    }

    /** Leaves the sums of the loss, and its gradient where logits were. */
    private void lossOfLast(StepState state) {
        Tensor last = activations.residual(table.shape().layers());
        Tensor gain = state.weights().vector(table.finalGain());
        Tensor vectors = state.weights().matrix(table.embedding());
        Tensor normed = activations.finalNormed();
        Tensor logits = activations.logits();
        engine.norm(last, gain, normed, activations.finalInverseRms());
        engine.multiply(state.tiles(), normed, vectors, true, null, logits);
        float tokens = state.context().partition().cuSeqlens().tokens();
        engine.crossEntropy(state.tiles(), logits, shard.targets(), 1f / (tokens * microSteps), sums.losses());
    }

    /** Loss, and the gradient of the residual stream behind the last layer. */
    private void output(StepState state) {
        lossOfLast(state);
        Tensor last = activations.residual(table.shape().layers());
        Tensor gain = state.weights().vector(table.finalGain());
        Tensor dNormed = activations.normedGradient();
        engine.multiply(
                state.tiles(), activations.logits(), state.weights().matrix(table.embedding()), false, null, dNormed);
        Tensor dLast = activations.streamGradient();
        engine.zero(dLast);
        engine.normBackward(
                state.tiles(), last, gain, activations.finalInverseRms(), dNormed, dLast, sums.of(table.finalGain()));
    }

    @Override
    public void close() {
        CloseStack.closeAll(shard, activations, sums, gradientReduction, lossReduction);
    }
}
