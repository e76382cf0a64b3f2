package dev.kcp.core;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.PendingAgreement;
import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.Shard;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.CloseStack;
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

    private final Communicator communicator;
    private final ConvEngine engine;
    private final Cuts cuts;
    private final int documentRoom;
    private final long digest;
    private final HaloTransfers forward;
    private final HaloTransfers backward;
    private RankPlan plan;
    private Shard shard;
    private CallerHistory callerHistory;
    private PendingAgreement agreement;
    private int updates;
    private UpperTree upperTree;
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
     * @throws IllegalArgumentException if the partition is for another number of ranks than the communicator's, the counts
     *     for another number of documents, or the engine computes elsewhere than the communicator moves rows
     */
    public KcpContext(
            Partition partition, HistoryCounts history, Communicator communicator, ConvEngine engine, PlanCache cache) {
        Objects.requireNonNull(partition, "partition");
        Objects.requireNonNull(history, "history");
        this(communicator, engine, null, 0, planOf(partition, history, communicator, cache));
    }

    private static RankPlan planOf(
            Partition partition, HistoryCounts history, Communicator communicator, PlanCache cache) {
        checkSize(partition, communicator);
        int rank = communicator.rank();
        return cache == null ? new RankPlan(partition, history, rank) : cache.get(partition, history, rank);
    }

    private static void checkSize(Partition partition, Communicator communicator) {
        if (partition.ranks() != communicator.size()) {
            throw new IllegalArgumentException("the partition is for another group: partitionRanks=" + partition.ranks()
                    + " communicatorSize=" + communicator.size());
        }
    }

    /**
     * @param cuts the cuts that all batches of this context have, or null where it is for one batch
     * @param documentRoom documents that a batch may have
     */
    private KcpContext(Communicator communicator, ConvEngine engine, Cuts cuts, int documentRoom, RankPlan plan) {
        checkDevices(communicator, engine);
        this.communicator = communicator;
        this.engine = engine;
        this.cuts = cuts;
        this.documentRoom = documentRoom;
        this.plan = plan;
        digest = cuts == null ? plan.digest() : cuts.partition().digest();
        int fragments = cuts == null
                ? plan.tables().fragments()
                : Math.addExact(
                        documentRoom,
                        cuts.partition().fragments(communicator.rank()).size());
        shard = engine.shard(plan.tables(), fragments);
        callerHistory = new CallerHistory(engine, plan, communicator.rank());
        forward = new HaloTransfers(engine, plan.forward());
        backward = new HaloTransfers(engine, plan.backward());
        agreement = agree();
    }

    /** A group of one rank moves no rows, so its communicator may be for any memory. */
    private static void checkDevices(Communicator communicator, ConvEngine engine) {
        if (communicator.size() == 1) {
            return;
        }
        if (!communicator.device().equals(engine.device())) {
            throw new IllegalArgumentException(
                    "the communicator moves rows of other memory than the engine's: transport="
                            + communicator.transport() + " communicatorDevice=" + communicator.device()
                            + " engineDevice="
                            + engine.device());
        }
        if (communicator.queue() != engine.queue()) {
            throw new IllegalArgumentException(
                    "the communicator follows another stream than the engine's, so that rows would travel before they are"
                            + " made: device=" + engine.device() + " communicatorStream=0x"
                            + Long.toHexString(communicator.queue()) + " engineStream=0x"
                            + Long.toHexString(engine.queue()));
        }
    }

    /**
     * A context that {@link #update} gives other batches: those cut at the same tokens, as batches of one length are by the
     * contiguous and zigzag layouts. The rows that travel are the same for all of them, whatever their documents are, so
     * that work captured in a graph serves them all.
     *
     * @param first the first batch
     * @param documents most documents that a batch may have
     */
    public static KcpContext updatable(Partition first, int documents, Communicator communicator, ConvEngine engine) {
        checkSize(first, communicator);
        Cuts cuts = Cuts.of(first);
        Partition batch = Cuts.coalesced(first);
        checkRoom(batch, documents);
        return new KcpContext(communicator, engine, cuts, documents, RankPlan.ofCuts(batch, cuts, communicator.rank()));
    }

    private static void checkRoom(Partition batch, int documents) {
        if (batch.cuSeqlens().documents() > documents) {
            throw new IllegalArgumentException("more documents than the context has room for: documents="
                    + batch.cuSeqlens().documents() + " room=" + documents);
        }
    }

    private PendingAgreement agree() {
        return communicator.agree(
                "batch",
                "plan=" + Long.toHexString(plan.digest()) + " documents="
                        + partition().cuSeqlens().documents() + " tokens="
                        + partition().cuSeqlens().tokens() + " taps=" + ConvChecks.TAPS + " rules=" + RULES
                        + (cuts == null ? "" : " cuts=" + Long.toHexString(digest)));
    }

    /**
     * Gives this context another batch, in stream order: later calls and graph replays work on it. Costs one copy and waits
     * for nobody; ranks do it in the same order. What earlier calls saved for their backward is spent.
     *
     * @throws IllegalArgumentException before any effect, if the batch is cut elsewhere than the first or has more documents
     *     than there is room for
     * @throws IllegalStateException if the context was not made by {@link #updatable}
     */
    public void update(Partition next) {
        checkOpen();
        if (cuts == null) {
            throw new IllegalStateException(
                    "only an updatable context takes another batch: rank=" + communicator.rank());
        }
        checkSize(next, communicator);
        checkRoom(next, documentRoom);
        if (!Cuts.of(next).isSameAs(cuts)) {
            throw new IllegalArgumentException("the batch is cut at other tokens than the context's first: tokens="
                    + next.cuSeqlens().tokens() + " of="
                    + partition().cuSeqlens().tokens() + " batch=" + next);
        }
        RankPlan replacing = RankPlan.ofCuts(Cuts.coalesced(next), cuts, communicator.rank());
        shard = engine.update(shard, replacing.tables());
        plan = replacing;
        callerHistory.close();
        callerHistory = new CallerHistory(engine, plan, communicator.rank());
        updates++;
        agreement = agree();
    }

    /** Who owns which tokens. */
    public Partition partition() {
        return plan.partition();
    }

    /** Rows that the caller gives before each document. */
    public HistoryCounts history() {
        return plan.history();
    }

    /** The group that the batch is cut over; borrowed. */
    public Communicator communicator() {
        return communicator;
    }

    /** The device's programs; borrowed. */
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

    /**
     * Lets a queue wait, on the device, until the tables of the batch are there. The engine's own queue needs no such call.
     *
     * @param queue a stream's handle
     */
    public void waitReady(long queue) {
        checkOpen();
        engine.holdBack(queue);
    }

    /** Bytes that this rank sends in one forward and one backward exchange of C channels. */
    public long commBytes(long channels) {
        return HaloPlan.forwardBytes(plan.forward().sentRows(), channels)
                + HaloPlan.backwardBytes(plan.backward().sentRows(), channels);
    }

    /** Bytes of the history pool that one forward of C channels saves beside its arguments. */
    public long savedBytes(long channels) {
        return HaloPlan.forwardBytes(forwardPoolRows(), channels);
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

    Shard shard() {
        return shard;
    }

    CallerHistory callerHistory() {
        return callerHistory;
    }

    HaloTransfers forwardTransfers() {
        return forward;
    }

    HaloTransfers backwardTransfers() {
        return backward;
    }

    int forwardPoolRows() {
        return plan.forward().poolRows();
    }

    int backwardPoolRows() {
        return plan.backward().poolRows();
    }

    /** Of what stays the same in every batch of this context. */
    long digest() {
        return digest;
    }

    /** How often the batch was replaced. */
    int updates() {
        return updates;
    }

    synchronized UpperTree upperTree() {
        if (upperTree == null) {
            upperTree = new UpperTree(partition().cuSeqlens().tokens(), plan.nodes(), engine.rowOps());
        }
        return upperTree;
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
            try (CloseStack owned = new CloseStack()) {
                owned.push(callerHistory);
                owned.push(upperTree);
                owned.push(backward);
                owned.push(forward);
                owned.push(shard);
            }
        }
    }
}
