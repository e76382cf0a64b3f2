package dev.kcp.core;

import dev.kcp.tensor.Tensor;

/**
 * One rank's sums for dweight and dbias of one tensor of one backward: its nodes of the reduction tree, not yet combined
 * over the group. Closed by the caller after {@link KcpConv1d#reduceGradients}.
 */
public final class PartialGradients implements AutoCloseable {
    private final KcpContext context;
    private final int tensor;
    private final boolean withBias;
    private final Tensor sums;

    PartialGradients(KcpContext context, int tensor, boolean withBias, Tensor sums) {
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

    @Override
    public void close() {
        sums.close();
    }
}
