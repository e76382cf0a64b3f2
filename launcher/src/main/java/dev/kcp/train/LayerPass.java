package dev.kcp.train;

import dev.kcp.core.Checkpoint;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;

/**
 * One layer's way through one batch: forward and backward. A checkpointed layer has a handle of its own, keeps nothing but
 * that handle's history rows and its input, and is recomputed before its backward without another exchange.
 */
final class LayerPass implements AutoCloseable {
    private final Layer layer;
    private final StepState state;
    private final RecomputeHandle handle;
    private final Checkpoint checkpoint;
    private Saved saved;
    private PartialGradients partial;

    LayerPass(Layer layer, StepState state, Recompute recompute) {
        this.layer = layer;
        this.state = state;
        this.handle = recompute == Recompute.WITH_HANDLE ? RecomputeHandle.create() : null;
        this.checkpoint = switch (recompute) {
            case NONE -> null;
            case EXCHANGING -> Checkpoint.of();
            case WITH_HANDLE -> Checkpoint.of(handle);
        };
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

    /** This rank's gradients of taps and bias, closed with this pass. */
    PartialGradients partial() {
        return partial;
    }

    private void closeRegion() {
        if (saved != null) {
            saved.close();
        }
        if (checkpoint != null) {
            checkpoint.close();
        }
        if (handle != null) {
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
