package dev.kcp.train;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/**
 * This rank's nodes of everything that is summed over tokens in one step: the gradients of the dense parameters, and the
 * loss. Kept from step to step, and grown when a plan has more nodes than all before.
 */
final class StepSums implements AutoCloseable {
    private final TrainEngine engine;
    private final ParameterTable table;
    private int capacityNodes;
    private int capacityLosses;
    private int nodes;
    private Tensor ownedGradients;
    private Tensor ownedLosses;

    StepSums(TrainEngine engine, ParameterTable table) {
        this.engine = engine;
        this.table = table;
    }

    void reserve(int nodeCount) {
        reserveLosses(nodeCount);
        if (ownedGradients != null && nodeCount <= capacityNodes) {
            return;
        }
        close(ownedGradients);
        // A rank without tokens has views too, of no rows.
        capacityNodes = Math.max(nodeCount, 1);
        // Gaps between parameters are never written and stay zero.
        ownedGradients = engine.allocate(DType.F32, capacityNodes, table.summedElements());
    }

    /** As {@link #reserve}, for the loss alone. */
    void reserveLosses(int nodeCount) {
        nodes = nodeCount;
        if (ownedLosses != null && nodeCount <= capacityLosses) {
            return;
        }
        close(ownedLosses);
        capacityLosses = Math.max(nodeCount, 1);
        ownedLosses = engine.allocate(DType.F64, capacityLosses, 1);
    }

    /** FP32 {@code [nodes, summedElements]}. */
    Tensor gradients() {
        return ownedGradients.rows(0, nodes);
    }

    /** FP64 {@code [nodes, 1]}. */
    Tensor losses() {
        return ownedLosses.rows(0, nodes);
    }

    /** One parameter's part of {@link #gradients}: FP32 {@code [nodes, elements]}, rows apart. */
    Tensor of(Parameter parameter) {
        Memory memory = Memory.borrow(
                engine.conv().device(), ownedGradients.address(), ownedGradients.elements() * Float.BYTES);
        return Tensor.pitched(
                memory,
                parameter.offset() * Float.BYTES,
                DType.F32,
                nodes,
                parameter.elements(),
                table.summedElements());
    }

    @Override
    public void close() {
        CloseStack.closeAll(ownedLosses, ownedGradients);
        ownedGradients = null;
        ownedLosses = null;
    }

    private static void close(Tensor tensor) {
        if (tensor != null) {
            tensor.close();
        }
    }
}
