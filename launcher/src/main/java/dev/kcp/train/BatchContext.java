package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;

/**
 * The context of the batch at hand. Where the layout cuts all batches of a run at the same tokens it is one context that is
 * given each next batch, so that a recorded step serves them all; else, and for a batch of many more documents than before,
 * there is a new one.
 */
final class BatchContext implements AutoCloseable {
    private final TrainConfig config;
    private final Communicator communicator;
    private final ConvEngine conv;
    private KcpContext context;
    private int room;

    BatchContext(TrainConfig config, Communicator communicator, ConvEngine conv) {
        this.config = config;
        this.communicator = communicator;
        this.conv = conv;
    }

    /** Whether a batch may have the context of the one before. */
    boolean isKept() {
        return config.layout() != Layout.ZIGZAG_PER_DOCUMENT;
    }

    /** Takes the batch that comes next. */
    void take(Partition partition) {
        int documents = partition.cuSeqlens().documents();
        if (!isKept()) {
            close();
            context = new KcpContext(partition, communicator, conv);
        } else if (context == null || documents > room) {
            close();
            // Tables are as long as the room; batches differ little.
            room = Math.min(2 * documents, config.tokens());
            context = KcpContext.updatable(partition, room, communicator, conv);
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
