package dev.kcp.core;

import dev.kcp.conv.ConvEngine;
import dev.kcp.tensor.Tensor;

/**
 * What one {@link KcpConv1d#forward} saved for its backward: x, weight and bias, borrowed, and the history rows, counted.
 * Closed by the caller after backward, or right away where the region will be recomputed.
 */
public final class Saved implements AutoCloseable {
    private final KcpContext context;
    private final Tensor x;
    private final Tensor weight;
    private final Tensor bias;
    private final HistoryPool pool;
    private boolean closed;

    Saved(KcpContext context, Tensor x, Tensor weight, Tensor bias, HistoryPool pool) {
        this.context = context;
        this.x = x;
        this.weight = weight;
        this.bias = bias;
        this.pool = pool;
    }

    KcpContext context() {
        return context;
    }

    ConvEngine.Operands operands() {
        if (closed) {
            throw new IllegalStateException(
                    "the saved set was closed: rank=" + context.communicator().rank());
        }
        return new ConvEngine.Operands(x, weight, bias, pool.rows());
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            pool.release();
        }
    }
}
