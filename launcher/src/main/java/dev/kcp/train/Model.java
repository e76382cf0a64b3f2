package dev.kcp.train;

import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpContext;
import dev.kcp.tensor.HostMemory;
import java.util.ArrayList;
import java.util.List;
import jdk.incubator.vector.FloatVector;

/**
 * The language model on one rank: token vectors, layers, a last norm, and the token vectors again as output matrix. It
 * holds the activations of this rank's shard; parameters and gradients are the caller's.
 */
final class Model implements AutoCloseable {
    private final ParameterTable table;
    private final Gemm gemm;
    private final boolean checkpointed;
    private final Activations activations;
    private final List<Layer> layers = new ArrayList<>();

    Model(ParameterTable table, Gemm gemm, boolean checkpointed) {
        this.table = table;
        this.gemm = gemm;
        this.checkpointed = checkpointed;
        this.activations = new Activations(table.shape(), checkpointed);
        for (int layer = 0; layer < table.shape().layers(); layer++) {
            layers.add(new Layer(table, layer));
        }
    }

    /**
     * One forward and backward pass over this rank's shard; collective.
     *
     * @param context partition and communicator of the batch
     * @param gradients overwritten: gradients of the mean loss over the whole batch. Those of taps and bias are summed
     *     over the group, all others are this rank's share
     * @return the sum of the loss over this rank's tokens, in nats
     */
    double lossAndGradients(KcpContext context, Shard shard, ParameterBuffer values, ParameterBuffer gradients) {
        activations.reserve(shard.tokens());
        gradients.zero();
        StepState state = new StepState(context, shard.tokens(), activations, values, gradients, gemm);
        List<LayerPass> passes = new ArrayList<>();
        try (CloseStack owners = new CloseStack()) {
            embed(state, shard);
            for (Layer layer : layers) {
                LayerPass pass = owners.push(new LayerPass(layer, state, checkpointed));
                passes.add(pass);
                pass.forward();
            }
            double loss = output(state, shard, context.partition().cuSeqlens().tokens());
            passes.reversed().forEach(LayerPass::backward);
            embedBackward(state, shard);
            passes.forEach(LayerPass::reduce);
            return loss;
        }
    }

    /** Exchanges of each layer so far. */
    List<ExchangeCounts> exchanges() {
        return layers.stream().map(Layer::exchanges).toList();
    }

    private void embed(StepState state, Shard shard) {
        long rowBytes = rowBytes();
        long vectors = state.values().address(table.embedding());
        for (int row = 0; row < state.rows(); row++) {
            HostMemory.copy(vectors + shard.input(row) * rowBytes, activations.residual(0) + row * rowBytes, rowBytes);
        }
    }

    private void embedBackward(StepState state, Shard shard) {
        long rowBytes = rowBytes();
        long dVectors = state.gradients().address(table.embedding());
        for (int row = 0; row < state.rows(); row++) {
            long to = dVectors + shard.input(row) * rowBytes;
            long from = activations.residualGradient() + row * rowBytes;
            for (long i = 0; i < rowBytes; i += Lanes.BYTES) {
                FloatVector sum = Lanes.load(to + i).add(Lanes.load(from + i));
                Lanes.store(sum, to + i);
            }
        }
    }

    /** Loss, and the gradient of the residual stream behind the last layer. */
    private double output(StepState state, Shard shard, int batchTokens) {
        int rows = state.rows();
        int channels = table.shape().channels();
        int vocabulary = ModelShape.VOCABULARY;
        long last = activations.residual(table.shape().layers());
        long gain = state.values().address(table.finalGain());
        long vectors = state.values().address(table.embedding());
        long normed = activations.scratch();
        RmsNorm.forward(rows, channels, last, gain, normed, activations.finalInverseRms());
        long logits = activations.logits();
        gemm.multiply(rows, vocabulary, channels, normed, false, vectors, true, 0, logits);
        double loss = CrossEntropy.lossAndGradient(shard, logits, 1f / batchTokens);
        long dVectors = state.gradients().address(table.embedding());
        gemm.multiply(vocabulary, channels, rows, logits, true, normed, false, 1, dVectors);
        long dNormed = activations.otherScratch();
        gemm.multiply(rows, channels, vocabulary, logits, false, vectors, false, 0, dNormed);
        long dLast = activations.residualGradient();
        HostMemory.zero(dLast, rows * rowBytes());
        long dGain = state.gradients().address(table.finalGain());
        RmsNorm.backward(rows, channels, last, gain, activations.finalInverseRms(), dNormed, dLast, dGain);
        return loss;
    }

    private long rowBytes() {
        return (long) table.shape().channels() * Float.BYTES;
    }

    @Override
    public void close() {
        activations.close();
    }
}
