package dev.kcp.core;

import dev.kcp.conv.ConvEngine.Operands;
import java.util.ArrayList;
import java.util.List;

/**
 * What one {@link KcpConv1d#forward} saved for its backward: x, weight and bias, borrowed, and the history rows, counted.
 * Closed by the caller after backward, or right away where the region will be recomputed.
 */
public final class Saved implements AutoCloseable {
    private final KcpContext context;
    private final List<ConvArguments> arguments;
    private final HistoryPool pool;
    private boolean closed;

    Saved(KcpContext context, List<ConvArguments> arguments, HistoryPool pool) {
        this.context = context;
        this.arguments = arguments;
        this.pool = pool;
    }

    KcpContext context() {
        return context;
    }

    List<Operands> operands() {
        if (closed) {
            throw new IllegalStateException(
                    "the saved set was closed: rank=" + context.communicator().rank());
        }
        pool.checkBatch();
        return operands(arguments, pool);
    }

    static List<Operands> operands(List<ConvArguments> arguments, HistoryPool pool) {
        List<Operands> operands = new ArrayList<>();
        for (int i = 0; i < arguments.size(); i++) {
            ConvArguments one = arguments.get(i);
            operands.add(
                    new Operands(one.x(), one.weight(), one.bias(), pool.rows().get(i)));
        }
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
