package dev.kcp.core;

import dev.kcp.conv.ConvEngine.Operands;
import java.util.List;

/**
 * What one {@link KcpConv1d#forward} saved for its backward: x, weight and bias, borrowed, and the history rows, counted.
 * Closed by the caller after backward, or right away where the region will be recomputed.
 */
public final class Saved implements AutoCloseable {
    private final KcpContext context;
    private final List<Operands> operands;
    private final HistoryPool pool;
    private boolean closed;

    /** @param pool of the operands' history rows; one reference becomes this set's own */
    Saved(KcpContext context, List<Operands> operands, HistoryPool pool) {
        this.context = context;
        this.operands = operands;
        this.pool = pool;
    }

    KcpContext context() {
        return context;
    }

    /**
     * What a call's backward works on.
     *
     * @throws IllegalStateException if the set was closed, the context was given another batch, or another call saved it
     */
    List<Operands> operandsOf(KcpConv1d call) {
        if (closed) {
            throw new IllegalStateException(
                    "the saved set was closed: rank=" + context.communicator().rank());
        }
        pool.checkBatch();
        pool.checkFilledBy(call);
        return operands;
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            pool.release();
        }
    }
}
