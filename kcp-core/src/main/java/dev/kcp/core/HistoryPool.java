package dev.kcp.core;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;

/**
 * The history rows that one forward received, counted: the saved set and the handle's entry each hold a reference, and the
 * last to let go frees it. It remembers which call filled it, so that an entry of another call cannot be bound.
 */
final class HistoryPool {
    private final KcpConv1d call;
    private final KcpContext context;
    private final Tensor rows;
    private int references = 1;
    private int pendingRegions;

    HistoryPool(KcpConv1d call, KcpContext context, long channels) {
        this.call = call;
        this.context = context;
        this.rows = context.engine().allocate(DType.BF16, context.forward().poolRows(), channels);
    }

    /** BF16 {@code [H, C]}. */
    Tensor rows() {
        return rows;
    }

    long nbytes() {
        return rows.elements() * rows.dtype().bytes();
    }

    /** Why this pool is not the one that a call may bind, or null if it is. */
    String mismatch(KcpConv1d wantedCall, KcpContext wantedContext, long wantedChannels) {
        if (call != wantedCall) {
            return "entryOf=" + call.label() + " call=" + wantedCall.label();
        }
        if (context != wantedContext) {
            return "entryOfPlan=" + Long.toHexString(context.digest()) + " plan="
                    + Long.toHexString(wantedContext.digest());
        }
        if (rows.columns() != wantedChannels) {
            return "entryChannels=" + rows.columns() + " C=" + wantedChannels;
        }
        return null;
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
            rows.close();
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
