package dev.kcp.core;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.tensor.CloseStack;
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

    /**
     * The stored pool where a call must bind it, null where the call must exchange.
     *
     * @param handle that the call was given, or null
     * @throws IllegalStateException if the handle was used or cleared in a way that its phase forbids
     */
    static HistoryPool stored(
            RecomputeHandle handle, KcpConv1d call, KcpContext context, List<ConvArguments> arguments) {
        if (handle == null) {
            return null;
        }
        Phase phase = Phase.current();
        Object entry = handle.entries().get(RecomputeHandle.CONV);
        if (entry == null || entry == RecomputeHandle.Cleared.ENTRY && phase == Phase.FORWARD) {
            return null;
        }
        String where = "call=" + call.label() + " phase=" + phase + " rank="
                + context.communicator().rank();
        if (entry == RecomputeHandle.Cleared.ENTRY) {
            throw new IllegalStateException("the handle was cleared before its region was recomputed: " + where);
        }
        if (!(entry instanceof HistoryPool pool)) {
            throw new IllegalStateException(
                    "the handle's entry \"" + RecomputeHandle.CONV + "\" was made by something else: " + where
                            + " entry=" + entry.getClass().getName());
        }
        if (phase == Phase.FORWARD) {
            throw new IllegalStateException(
                    "the handle is filled already; make one per convolution call and micro-step: " + where);
        }
        String mismatch = pool.mismatch(call, context, arguments);
        if (mismatch != null) {
            throw new IllegalStateException("the handle's entry belongs to another call: " + where + " " + mismatch);
        }
        return pool;
    }

    /** BF16 {@code [H, C]} of each tensor of the call. */
    List<Tensor> rows() {
        return rows;
    }

    /** What programs work on: a call's arguments with these rows. */
    List<Operands> operands(List<ConvArguments> arguments) {
        List<Operands> operands = new ArrayList<>();
        for (int i = 0; i < arguments.size(); i++) {
            ConvArguments one = arguments.get(i);
            operands.add(new Operands(one.x(), one.weight(), one.bias(), rows.get(i)));
        }
        return List.copyOf(operands);
    }

    long nbytes() {
        return rows.stream()
                .mapToLong(tensor -> tensor.elements() * tensor.dtype().bytes())
                .sum();
    }

    /** Why this pool is not the one that a call may bind, or null if it is. */
    private String mismatch(KcpConv1d wantedCall, KcpContext wantedContext, List<ConvArguments> arguments) {
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

    /**
     * Checks that a backward is of the call whose forward received the rows.
     *
     * @throws IllegalStateException if another call's did
     */
    void checkFilledBy(KcpConv1d wantedCall) {
        if (call != wantedCall) {
            throw new IllegalStateException("the saved set is another call's: savedBy=" + call.label() + " call="
                    + wantedCall.label() + " rank=" + context.communicator().rank());
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
            CloseStack.closeAll(rows);
        }
    }

    synchronized void enterRegion() {
        pendingRegions++;
    }

    synchronized void leaveRegion() {
        pendingRegions--;
    }

    /**
     * Checks that no region is still to be recomputed from the rows; ends the group if one is.
     *
     * @throws IllegalStateException if one is
     */
    synchronized void checkNotPending() {
        if (pendingRegions > 0) {
            IllegalStateException refusal = new IllegalStateException(
                    "the handle is needed by a checkpointed region that is still to be recomputed: call=" + call.label()
                            + " pendingRegions=" + pendingRegions);
            context.communicator().abort(call.label() + ": " + refusal.getMessage());
            throw refusal;
        }
    }
}
