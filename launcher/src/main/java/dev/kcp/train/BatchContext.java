package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;

/**
 * The context of the batch at hand. Where the layout cuts all batches of a run at the same tokens it is one context that is
 * given each next batch, so that a recorded step serves them all; else there is a new one for each.
 */
final class BatchContext implements AutoCloseable {
    private final TrainConfig config;
    private final Communicator communicator;
    private final ConvEngine conv;
    private KcpContext context;

    BatchContext(TrainConfig config, Communicator communicator, ConvEngine conv) {
        this.config = config;
        this.communicator = communicator;
        this.conv = conv;
    }

    /** Whether every batch has the same context. */
    boolean isKept() {
        return config.layout() != Layout.ZIGZAG_PER_DOCUMENT;
    }

    /** Takes the batch that comes next. */
    void take(Partition partition) {
        if (!isKept()) {
            close();
            context = new KcpContext(partition, communicator, conv);
        } else if (context == null) {
            // No document is without a token.
            context = KcpContext.updatable(partition, config.tokens(), communicator, conv);
        } else {
            context.update(partition);
        }
    }

    KcpContext context() {
        return context;
    }

    @Override
    public void close() {
        if (context != null) {
            context.close();
            context = null;
        }
    }
}
