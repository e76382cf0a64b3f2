package dev.kcp.core;

import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.NodeKey;
import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * One batch layout on one rank: the partition, the group it is cut over, the device's programs, and the tables and edges
 * that follow. Built once per batch layout and reused by every layer and both directions. Borrows the communicator and the
 * engine.
 */
public final class KcpContext implements AutoCloseable {
    private final Partition partition;
    private final Communicator communicator;
    private final ConvEngine engine;
    private final HaloPlan plan;
    private final ShardTables tables;
    private final Shard shard;
    private final HaloDirection forward;
    private final HaloDirection backward;
    private final long digest;
    private List<List<NodeKey>> nodes;
    private boolean closed;

    /**
     * Computes from host metadata alone; nothing is exchanged. That all ranks mean the same partition is compared with
     * the first exchange.
     *
     * @throws IllegalArgumentException if the partition is for another number of ranks than the communicator's
     */
    public KcpContext(Partition partition, Communicator communicator, ConvEngine engine) {
        this.partition = Objects.requireNonNull(partition, "partition");
        this.communicator = Objects.requireNonNull(communicator, "communicator");
        this.engine = Objects.requireNonNull(engine, "engine");
        if (partition.ranks() != communicator.size()) {
            throw new IllegalArgumentException("the partition is for another group: partitionRanks=" + partition.ranks()
                    + " communicatorSize=" + communicator.size());
        }
        digest = partition.digest();
        plan = HaloPlan.of(partition);
        int rank = communicator.rank();
        List<ShardTables.Span> spans = partition.spans(rank);
        int[] headBegin = ShardTables.headBegins(spans);
        forward = new HaloDirection(partition, plan.forward(), rank, Partition.Place::row);
        backward = new HaloDirection(
                partition, plan.backward(), rank, place -> headBegin[place.fragment()] + place.offset());
        int[] historyRow = new int[ShardTables.HISTORY * spans.size()];
        int[] owedRow = new int[ShardTables.HISTORY * spans.size()];
        for (int f = 0; f < spans.size(); f++) {
            ShardTables.Span span = spans.get(f);
            for (int i = 0; i < ShardTables.HISTORY; i++) {
                int before = span.packedBegin() - 1 - i;
                int after = span.packedBegin() + span.length() + i;
                historyRow[ShardTables.HISTORY * f + i] =
                        span.length() > 0 && before >= span.documentBegin() ? poolRow(forward, before) : -1;
                owedRow[ShardTables.HISTORY * f + i] =
                        span.length() > 0 && after < span.documentEnd() ? poolRow(backward, after) : -1;
            }
        }
        tables = ShardTables.of(partition.cuSeqlens().tokens(), spans, historyRow, owedRow);
        shard = engine.shard(tables);
    }

    private int poolRow(HaloDirection direction, int token) {
        return direction.poolRow(token, partition.placeOf(token).rank());
    }

    public Partition partition() {
        return partition;
    }

    public Communicator communicator() {
        return communicator;
    }

    public ConvEngine engine() {
        return engine;
    }

    /** The rows that travel, of all ranks. */
    public HaloPlan plan() {
        return plan;
    }

    /** This rank's tokens: rows of x, y, dy and dx, before any slack. */
    public int localTokens() {
        return tables.rows();
    }

    /** Bytes that this rank sends in one forward and one backward exchange of C channels. */
    public long commBytes(long channels) {
        return channels
                * (forward.sentRows() * (long) DType.BF16.bytes() + backward.sentRows() * (long) DType.F32.bytes());
    }

    /** Bytes of the history pool that one forward of C channels saves beside its arguments. */
    public long savedBytes(long channels) {
        return channels * forward.poolRows() * DType.BF16.bytes();
    }

    Shard shard() {
        return shard;
    }

    HaloDirection forward() {
        return forward;
    }

    HaloDirection backward() {
        return backward;
    }

    long digest() {
        return digest;
    }

    /** Every rank's sums of the reduction tree. */
    synchronized List<List<NodeKey>> nodes() {
        if (nodes == null) {
            List<List<NodeKey>> all = new ArrayList<>();
            for (int rank = 0; rank < partition.ranks(); rank++) {
                all.add(ShardTables.nodesOf(partition.cuSeqlens().tokens(), partition.spans(rank)));
            }
            nodes = List.copyOf(all);
        }
        return nodes;
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
        }
    }
}
