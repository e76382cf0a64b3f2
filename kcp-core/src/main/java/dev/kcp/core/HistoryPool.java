package dev.kcp.core;

import dev.kcp.conv.ConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * The history rows that one forward received, counted: the saved set and the handle's entry each hold a reference, and the
 * last to let go frees it. It remembers which call filled it, so that an entry of another call cannot be bound.
 */
final class HistoryPool {
    private final KcpConv1d call;
    private final KcpContext context;
    private final int updates;
    private final List<Tensor> rows = new ArrayList<>();
    private int references = 1;
    private int pendingRegions;

    HistoryPool(KcpConv1d call, KcpContext context, List<ConvArguments> arguments) {
        this.call = call;
        this.context = context;
        this.updates = context.updates();
        ConvEngine engine = context.engine();
        for (ConvArguments one : arguments) {
            rows.add(engine.allocate(
                    DType.BF16, context.forwardPoolRows(), one.x().columns()));
        }
    }

    /** BF16 {@code [H, C]} of each tensor of the call. */
    List<Tensor> rows() {
        return rows;
    }

    long nbytes() {
        return rows.stream()
                .mapToLong(tensor -> tensor.elements() * tensor.dtype().bytes())
                .sum();
    }

    /** Why this pool is not the one that a call may bind, or null if it is. */
    String mismatch(KcpConv1d wantedCall, KcpContext wantedContext, List<ConvArguments> arguments) {
        if (call != wantedCall) {
            return "entryOf=" + call.label() + " call=" + wantedCall.label();
        }
        if (context != wantedContext) {
            return "entryOfPlan=" + Long.toHexString(context.digest()) + " plan="
                    + Long.toHexString(wantedContext.digest());
        }
        if (updates != context.updates()) {
            return "entryOfUpdate=" + updates + " contextUpdates=" + context.updates();
        }
        List<Long> entry = rows.stream().map(Tensor::columns).toList();
        List<Long> wanted = arguments.stream().map(one -> one.x().columns()).toList();
        return entry.equals(wanted) ? null : "entryChannels=" + entry + " C=" + wanted;
    }

    /**
     * Checks that the context has still the batch that the rows are of.
     *
     * @throws IllegalStateException if it was given another one
     */
    void checkBatch() {
        if (updates != context.updates()) {
            throw new IllegalStateException("the context was given another batch since the forward: call="
                    + call.label() + " savedAtUpdate=" + updates + " contextUpdates=" + context.updates());
        }
    }

    synchronized HistoryPool retain() {
        if (references == 0) {
            throw new IllegalStateException("history rows were freed: call=" + call.label());
        }
        references++;
        return this;
    }

    synchronized void release() {
        if (references > 0 && --references == 0) {
            rows.forEach(Tensor::close);
        }
    }

    synchronized void enterRegion() {
        pendingRegions++;
    }

    synchronized void leaveRegion() {
        pendingRegions--;
    }

    synchronized int pendingRegions() {
        return pendingRegions;
    }
}
