package dev.kcp.core;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.LeafTable;
import dev.kcp.conv.SiluGradPolicy;
import java.util.List;

/**
 * What every rank of a partition would send and keep, as its {@link KcpContext} tells once it exists: for planning, on one
 * machine, without a communicator. A caller's history is not counted.
 */
public final class PartitionCosts {
    private final Partition partition;
    private final HaloPlan halo;
    private final long[] forwardRowsSent;
    private final long[] backwardRowsSent;
    private final long[] historyRowsKept;

    /** Plans the batch once for all ranks. */
    public PartitionCosts(Partition partition) {
        this.partition = partition;
        halo = HaloPlan.of(partition);
        forwardRowsSent = sent(halo.forward());
        backwardRowsSent = sent(halo.backward());
        historyRowsKept = new long[partition.ranks()];
        halo.forward().forEach(edge -> historyRowsKept[edge.to()] += edge.tokens().length);
    }

    private long[] sent(List<HaloPlan.Edge> edges) {
        long[] rows = new long[partition.ranks()];
        for (HaloPlan.Edge edge : edges) {
            if (!edge.isLocal()) {
                rows[edge.from()] += edge.tokens().length;
            }
        }
        return rows;
    }

    /** What is planned. */
    public Partition partition() {
        return partition;
    }

    /** The rows that travel. */
    public HaloPlan halo() {
        return halo;
    }

    /** Bytes that a rank sends in one forward exchange of C channels. */
    public long forwardBytes(int rank, long channels) {
        return HaloPlan.forwardBytes(forwardRowsSent[rank], channels);
    }

    /** Bytes that a rank sends in one backward exchange of C channels. */
    public long backwardBytes(int rank, long channels) {
        return HaloPlan.backwardBytes(backwardRowsSent[rank], channels);
    }

    /** As {@link KcpContext#savedBytes}: bytes of history rows that a rank keeps from forward to backward. */
    public long savedBytes(int rank, long channels) {
        return HaloPlan.forwardBytes(historyRowsKept[rank], channels);
    }

    /** As {@link KcpContext#treeBytes}: bytes that a rank sends in one reduction of dweight, and of dbias with a bias. */
    public long treeBytes(int rank, long channels, SiluGradPolicy policy, boolean withBias) {
        return GroupSums.sentBytes(
                channels,
                rank,
                partition.ranks(),
                LeafTable.of(partition.cuSeqlens().tokens(), partition.spans(rank, HistoryCounts.NONE))
                        .nodes()
                        .size(),
                withBias ? ConvChecks.TAPS + 1 : ConvChecks.TAPS,
                policy.sumType());
    }
}
