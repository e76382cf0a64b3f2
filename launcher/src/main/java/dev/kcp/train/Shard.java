package dev.kcp.train;

import dev.kcp.core.Fragment;
import dev.kcp.core.Partition;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;

/**
 * The input and target tokens of one rank, its fragments end to end, on the engine's device. Buffers are kept, and grown
 * when too small.
 */
final class Shard implements AutoCloseable {
    private final TrainEngine engine;
    private int tokens;
    private int[] hostInputs = new int[0];
    private int[] hostTargets = new int[0];
    private Tensor inputs;
    private Tensor targets;

    Shard(TrainEngine engine) {
        this.engine = engine;
    }

    /** Takes this rank's tokens out of the packed batch. */
    void take(PackedBatch batch, Partition partition, int rank) {
        tokens = partition.tokens(rank);
        if (inputs == null || tokens > hostInputs.length) {
            grow(Math.max(tokens, 1));
        }
        int row = 0;
        for (Fragment fragment : partition.fragments(rank)) {
            int begin = partition.packedBegin(fragment);
            for (int token = begin; token < begin + fragment.length(); token++) {
                hostInputs[row] = Byte.toUnsignedInt(batch.inputs()[token]);
                hostTargets[row] = Byte.toUnsignedInt(batch.targets()[token]);
                row++;
            }
        }
        engine.write(inputs(), host(hostInputs));
        engine.write(targets(), host(hostTargets));
    }

    private void grow(int capacity) {
        close();
        hostInputs = new int[capacity];
        hostTargets = new int[capacity];
        inputs = engine.allocate(DType.I32, capacity, 1);
        targets = engine.allocate(DType.I32, capacity, 1);
    }

    private MemorySegment host(int[] all) {
        return MemorySegment.ofArray(all).asSlice(0, (long) tokens * Integer.BYTES);
    }

    int tokens() {
        return tokens;
    }

    /** I32 {@code [tokens, 1]}, 0 to 255. */
    Tensor inputs() {
        return inputs.rows(0, tokens);
    }

    /** I32 {@code [tokens, 1]}, 0 to 255. */
    Tensor targets() {
        return targets.rows(0, tokens);
    }

    @Override
    public void close() {
        if (inputs != null) {
            CloseStack.closeAll(targets, inputs);
            inputs = null;
        }
    }
}
