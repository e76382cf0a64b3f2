package dev.kcp.train;

import dev.kcp.core.Checkpoint;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;

/**
 * One layer's way through one step: forward, backward, and the sum of its convolution's gradients. A checkpointed layer
 * has a handle of its own, keeps nothing but that handle's history rows and its input, and is recomputed before its
 * backward without another exchange.
 */
final class LayerPass implements AutoCloseable {
    private final Layer layer;
    private final StepState state;
    private final RecomputeHandle handle;
    private final Checkpoint checkpoint;
    private Saved saved;
    private PartialGradients partial;

    LayerPass(Layer layer, StepState state, boolean checkpointed) {
        this.layer = layer;
        this.state = state;
        this.handle = checkpointed ? RecomputeHandle.create() : null;
        this.checkpoint = checkpointed ? Checkpoint.of(handle) : null;
    }

    void forward() {
        if (checkpoint == null) {
            saved = layer.convolve(state, null);
            layer.project(state);
            return;
        }
        checkpoint.<Void>forward(() -> {
            layer.convolve(state, handle).close();
            layer.project(state);
            return null;
        });
    }

    void backward() {
        if (checkpoint != null) {
            saved = checkpoint.recompute(() -> layer.convolve(state, handle));
        }
        partial = layer.backward(state, saved);
        closeRegion();
    }

    /** Collective. */
    void reduce() {
        layer.reduce(state, partial);
    }

    private void closeRegion() {
        if (saved != null) {
            saved.close();
        }
        if (checkpoint != null) {
            checkpoint.close();
            handle.clear();
        }
    }

    @Override
    public void close() {
        if (partial != null) {
            partial.close();
        }
        closeRegion();
    }
}
