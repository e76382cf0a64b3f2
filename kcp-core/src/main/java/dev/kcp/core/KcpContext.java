package dev.kcp.core;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.PendingAgreement;
import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.NodeKey;
import dev.kcp.conv.Shard;
import dev.kcp.conv.SiluGradPolicy;
import java.util.List;
import java.util.Objects;

/**
 * One batch layout on one rank: the partition, the group it is cut over, the device's programs, and the tables and edges
 * that follow. Built once per batch layout and reused by every layer and both directions; it may be built ahead, by another
 * thread than the one that exchanges. Borrows the communicator and the engine.
 *
 * <p>Ranks make their contexts of one communicator in the same order. Each tells the others at once what it means; the
 * first exchange, or {@link #awaitAgreement}, waits for what they mean and compares.
 */
public final class KcpContext implements AutoCloseable {
    /** Changes whenever rows would travel in another order, so that ranks of different versions are told apart. */
    private static final int RULES = 1;

    private final RankPlan plan;
    private final Communicator communicator;
    private final ConvEngine engine;
    private final Shard shard;
    private final Shard historyShard;
    private final PendingAgreement agreement;
    private boolean closed;

    /** A context without a caller's history. */
    public KcpContext(Partition partition, Communicator communicator, ConvEngine engine) {
        this(partition, HistoryCounts.NONE, communicator, engine, null);
    }

    /**
     * Computes from host metadata alone and waits for nobody.
     *
     * @param history rows that the caller gives before each document
     * @param cache where to look for the plan and to keep it, or null
     * @throws IllegalArgumentException if the partition is for another number of ranks than the communicator's, or the
     *     counts for another number of documents
     */
    public KcpContext(
            Partition partition, HistoryCounts history, Communicator communicator, ConvEngine engine, PlanCache cache) {
        Objects.requireNonNull(partition, "partition");
        Objects.requireNonNull(history, "history");
        this.communicator = Objects.requireNonNull(communicator, "communicator");
        this.engine = Objects.requireNonNull(engine, "engine");
        if (partition.ranks() != communicator.size()) {
            throw new IllegalArgumentException("the partition is for another group: partitionRanks=" + partition.ranks()
                    + " communicatorSize=" + communicator.size());
        }
        int rank = communicator.rank();
        plan = cache == null ? new RankPlan(partition, history, rank) : cache.get(partition, history, rank);
        shard = engine.shard(plan.tables());
        historyShard = plan.historyDocuments().length == 0 ? null : engine.shard(plan.historyTables());
        agreement = communicator.agree(
                "batch",
                "plan=" + Long.toHexString(plan.digest()) + " documents="
                        + partition.cuSeqlens().documents() + " tokens="
                        + partition.cuSeqlens().tokens() + " taps=" + ConvChecks.TAPS + " rules=" + RULES);
    }

    public Partition partition() {
        return plan.partition();
    }

    /** Rows that the caller gives before each document. */
    public HistoryCounts history() {
        return plan.history();
    }

    public Communicator communicator() {
        return communicator;
    }

    public ConvEngine engine() {
        return engine;
    }

    /** The rows that travel, of all ranks. */
    public HaloPlan plan() {
        return plan.plan();
    }

    /** This rank's tokens: rows of x, y, dy and dx, before any slack. */
    public int localTokens() {
        return plan.tables().rows();
    }

    /**
     * Returns once every rank of the group has made this context, and meant the same by it; at once if that is known.
     *
     * @throws dev.kcp.KcpException naming who differs in what, the same on every rank, or who is missing at the deadline
     */
    public void awaitAgreement() {
        agreement.await();
    }

    /** Bytes that this rank sends in one forward and one backward exchange of C channels. */
    public long commBytes(long channels) {
        return HaloPlan.forwardBytes(forward().sentRows(), channels)
                + HaloPlan.backwardBytes(backward().sentRows(), channels);
    }

    /** Bytes of the history pool that one forward of C channels saves beside its arguments. */
    public long savedBytes(long channels) {
        return HaloPlan.forwardBytes(forward().poolRows(), channels);
    }

    /** Bytes that this rank sends in one {@link KcpConv1d#reduceGradients} of one backward of C channels. */
    public long treeBytes(long channels, SiluGradPolicy policy, boolean withBias) {
        return GroupSums.sentBytes(
                channels,
                communicator.rank(),
                communicator.size(),
                shard.nodeCount(),
                withBias ? ConvChecks.TAPS + 1 : ConvChecks.TAPS,
                policy.sumType());
    }

    RankPlan rankPlan() {
        return plan;
    }

    Shard shard() {
        return shard;
    }

    /** The caller's history rows of this rank as a shard, or null where there are none. */
    Shard historyShard() {
        return historyShard;
    }

    HaloDirection forward() {
        return plan.forward();
    }

    HaloDirection backward() {
        return plan.backward();
    }

    long digest() {
        return plan.digest();
    }

    /** Every rank's sums of the reduction tree. */
    List<List<NodeKey>> nodes() {
        return plan.nodes();
    }

    void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the context was closed: rank=" + communicator.rank());
        }
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            shard.close();
            if (historyShard != null) {
                historyShard.close();
            }
        }
    }
}
