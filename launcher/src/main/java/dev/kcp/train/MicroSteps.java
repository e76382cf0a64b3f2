package dev.kcp.train;

import dev.kcp.core.PartialGradients;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * The batches of one step, whose gradients add up: those of dense parameters as they come, each summed over the group
 * first, and those of the convolutions at the end, by the convolution's own sum over micro-steps. Kept from step to step.
 */
final class MicroSteps implements AutoCloseable {
    private final TrainEngine engine;
    private final ParameterBuffer batchGradients;
    private final Tensor batchLoss;
    private final List<List<PartialGradients>> partials = new ArrayList<>();
    private CloseStack owners = new CloseStack();

    /** @param layers of the model */
    MicroSteps(TrainEngine engine, ParameterTable table, int layers) {
        this.engine = engine;
        batchGradients = new ParameterBuffer(engine, DType.F32, table);
        batchLoss = engine.allocate(DType.F64, 1);
        for (int layer = 0; layer < layers; layer++) {
            partials.add(new ArrayList<>());
        }
    }

    /** Owners of what the step's backwards left, closed at the step's end. */
    CloseStack owners() {
        return owners;
    }

    boolean isFirst() {
        return partials.getFirst().isEmpty();
    }

    /** Where a batch's dense gradients go before they are added. */
    ParameterBuffer batchGradients() {
        return batchGradients;
    }

    /** FP64, one element. */
    Tensor batchLoss() {
        return batchLoss;
    }

    void add(int layer, PartialGradients partial) {
        partials.get(layer).add(partial);
    }

    /** One layer's gradients of each batch so far, in order. */
    List<PartialGradients> of(int layer) {
        return partials.get(layer);
    }

    /** Forgets the step. */
    void end() {
        partials.forEach(List::clear);
        CloseStack ended = owners;
        owners = new CloseStack();
        ended.close();
    }

    @Override
    public void close() {
        CloseStack.closeAll(batchGradients, batchLoss, this::end);
    }
}
