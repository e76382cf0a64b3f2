package dev.kcp.core;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * One region whose activations are dropped after forward and computed again before its backward. Regions nest: what runs
 * inside a recompute is recompute.
 *
 * <pre>{@code
 * try (Checkpoint region = Checkpoint.of(handle)) {
 *     y = region.forward(() -> layer.forward(x, handle));          // exchanges, fills the handle
 *     ...
 *     Activations a = region.recompute(() -> layer.forward(x, handle)); // exchanges nothing
 *     layer.backward(a, dy);
 * }
 * handle.clear();
 * }</pre>
 */
public final class Checkpoint implements AutoCloseable {
    private final List<RecomputeHandle> handles;
    private final List<HistoryPool> pending = new ArrayList<>();

    private Checkpoint(List<RecomputeHandle> handles) {
        this.handles = handles;
    }

    /** A region that was given these handles. */
    public static Checkpoint of(RecomputeHandle... handles) {
        return new Checkpoint(List.of(handles));
    }

    /** Runs the region for the first time; inside another region's recompute this is recompute too. */
    public <T> T forward(Supplier<T> region) {
        T result = Phase.current().call(region);
        for (RecomputeHandle handle : handles) {
            if (handle.entries().get(RecomputeHandle.CONV) instanceof HistoryPool pool) {
                pool.enterRegion();
                pending.add(pool);
            }
        }
        return result;
    }

    /** Runs the region again. */
    public <T> T recompute(Supplier<T> region) {
        return Phase.RECOMPUTE.call(region);
    }

    /** Ends the region: its backward has run, and its handles may be cleared. */
    @Override
    public void close() {
        pending.forEach(HistoryPool::leaveRegion);
        pending.clear();
    }
}
