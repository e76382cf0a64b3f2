package dev.kcp.core;

import dev.kcp.tensor.Tensor;

/**
 * One rank's sums for dweight and dbias of one tensor of one backward: its nodes of the reduction tree, not yet combined
 * over the group. Closed by the caller after {@link KcpConv1d#reduceGradients}.
 */
public final class PartialGradients implements AutoCloseable {
    private final KcpConv1d call;
    private final KcpContext context;
    private final int tensor;
    private final boolean withBias;
    private final Tensor sums;
    private volatile boolean closed;

    PartialGradients(KcpConv1d call, KcpContext context, int tensor, boolean withBias, Tensor sums) {
        this.call = call;
        this.context = context;
        this.tensor = tensor;
        this.withBias = withBias;
        this.sums = sums;
    }

    KcpContext context() {
        return context;
    }

    /** The tensor's place in its call. */
    int tensor() {
        return tensor;
    }

    boolean withBias() {
        return withBias;
    }

    /** {@code [nodes, planes, C]} of the policy's sum type. */
    Tensor sums() {
        return sums;
    }

    /**
     * Checks that a call may reduce the sums.
     *
     * @throws IllegalArgumentException if another call's backward made them
     * @throws IllegalStateException if they, or their context, were closed
     */
    void checkUsableBy(KcpConv1d wantedCall) {
        if (call != wantedCall) {
            throw new IllegalArgumentException("sums of another call: sumsOf=" + call + " call=" + wantedCall);
        }
        if (closed) {
            throw new IllegalStateException("the sums were closed: call=" + call.label() + " rank="
                    + context.communicator().rank());
        }
        context.checkOpen();
    }

    /**
     * Checks that the sums can be added to those of an earlier micro-step.
     *
     * @throws IllegalArgumentException if they are of another tensor, group or device
     */
    void checkSameAs(PartialGradients first) {
        if (tensor != first.tensor || withBias != first.withBias || sums.columns() != first.sums.columns()) {
            throw new IllegalArgumentException("micro-steps are of one tensor of one call: call=" + call.label()
                    + " tensors=" + first.tensor + "," + tensor + " channels=" + first.sums.columns() + ","
                    + sums.columns() + " biases=" + first.withBias + "," + withBias);
        }
        if (context.communicator() != first.context.communicator() || context.engine() != first.context.engine()) {
            throw new IllegalArgumentException("micro-steps are of one communicator and one engine: call="
                    + call.label() + " sameCommunicator="
                    + (context.communicator() == first.context.communicator()) + " sameEngine="
                    + (context.engine() == first.context.engine()));
        }
    }

    @Override
    public void close() {
        closed = true;
        sums.close();
    }
}
