package dev.kcp.plan;

import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Fragment;
import dev.kcp.core.HaloPlan;
import dev.kcp.core.Partition;
import dev.kcp.core.PartitionCosts;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.TreeMap;
import java.util.stream.IntStream;

/**
 * What one partition of a packed batch costs: every number comes from the plan that training itself would use, for all
 * ranks, without starting one.
 *
 * @param layout the partition's name
 * @param align tokens whose multiples cuts fall on, or 0 where the partition is explicit
 * @param channels C of one layer
 * @param ranks in rank order
 * @param edges by sender, then receiver; local copies included
 * @param halo all rows that travel
 */
public record PlanReport(
        Partition partition,
        String layout,
        int align,
        long channels,
        List<RankTotals> ranks,
        List<EdgeTotals> edges,
        HaloPlan halo) {
    /** Copies the lists. */
    public PlanReport {
        ranks = List.copyOf(ranks);
        edges = List.copyOf(edges);
    }

    /**
     * One rank's share, for one layer of C channels.
     *
     * @param fragments those with a token
     * @param forwardBytes sent in one forward exchange
     * @param backwardBytes sent in one backward exchange
     * @param savedBytes of history rows kept from forward to backward
     * @param treeBytes sent when dweight is reduced once, without a bias, policy bf16
     */
    public record RankTotals(
            int rank,
            int tokens,
            int fragments,
            long forwardBytes,
            long backwardBytes,
            long savedBytes,
            long treeBytes) {
        /** Bytes sent in one forward and one backward exchange. */
        public long exchangeBytes() {
            return forwardBytes + backwardBytes;
        }
    }

    /** Rows and bytes from one rank to another, or to itself, in one layer of C channels. */
    public record EdgeTotals(
            int from, int to, int forwardRows, long forwardBytes, int backwardRows, long backwardBytes) {
        /** Whether sender and reader are one rank, so that nothing is sent. */
        public boolean isLocal() {
            return from == to;
        }
    }

    /**
     * A fragment with at least one token, in packed tokens.
     *
     * @param offset of its first token in the document
     */
    public record Placed(int rank, int document, int offset, int begin, int end) {}

    /**
     * Plans without starting a rank.
     *
     * @param channels C, a positive multiple of 8
     * @throws IllegalArgumentException if C is none
     */
    public static PlanReport of(Partition partition, String layout, int align, long channels) {
        if (channels < 8 || channels % 8 != 0) {
            throw new IllegalArgumentException("channels must be a multiple of 8: channels=" + channels);
        }
        PartitionCosts costs = new PartitionCosts(partition);
        List<RankTotals> ranks = IntStream.range(0, partition.ranks())
                .mapToObj(rank -> totals(costs, rank, channels))
                .toList();
        return new PlanReport(partition, layout, align, channels, ranks, edges(costs.halo(), channels), costs.halo());
    }

    private static RankTotals totals(PartitionCosts costs, int rank, long channels) {
        return new RankTotals(
                rank,
                costs.partition().tokens(rank),
                (int) costs.partition().fragments(rank).stream()
                        .filter(fragment -> fragment.length() > 0)
                        .count(),
                costs.forwardBytes(rank, channels),
                costs.backwardBytes(rank, channels),
                costs.savedBytes(rank, channels),
                costs.treeBytes(rank, channels, SiluGradPolicy.BF16, false));
    }

    private static List<EdgeTotals> edges(HaloPlan halo, long channels) {
        TreeMap<Long, int[]> rows = new TreeMap<>();
        halo.forward().forEach(edge -> rows.computeIfAbsent(key(edge), none -> new int[2])[0] = edge.tokens().length);
        halo.backward().forEach(edge -> rows.computeIfAbsent(key(edge), none -> new int[2])[1] = edge.tokens().length);
        List<EdgeTotals> edges = new ArrayList<>();
        rows.forEach((key, both) -> edges.add(new EdgeTotals(
                (int) (key >> Integer.SIZE),
                key.intValue(),
                both[0],
                HaloPlan.forwardBytes(both[0], channels),
                both[1],
                HaloPlan.backwardBytes(both[1], channels))));
        return edges;
    }

    private static long key(HaloPlan.Edge edge) {
        return (long) edge.from() << Integer.SIZE | edge.to();
    }

    /** All fragments with a token, in packed order. */
    public List<Placed> placed() {
        CuSeqlens cuSeqlens = partition.cuSeqlens();
        List<Placed> all = new ArrayList<>();
        for (int rank = 0; rank < partition.ranks(); rank++) {
            for (Fragment fragment : partition.fragments(rank)) {
                int begin = cuSeqlens.begin(fragment.document()) + fragment.offset();
                if (fragment.length() > 0) {
                    all.add(new Placed(rank, fragment.document(), fragment.offset(), begin, begin + fragment.length()));
                }
            }
        }
        all.sort(Comparator.comparingInt(Placed::begin));
        return all;
    }

    /** Most tokens of a rank over the mean; 1 where all have as many, or there is no token. */
    public double imbalance() {
        int most = ranks.stream().mapToInt(RankTotals::tokens).max().orElseThrow();
        long all = partition.cuSeqlens().tokens();
        return all == 0 ? 1 : (double) most * ranks.size() / all;
    }

    /** Bytes that all ranks send in one forward and one backward exchange. */
    public long exchangeBytes() {
        return ranks.stream().mapToLong(RankTotals::exchangeBytes).sum();
    }

    /** One line that says what was cut and how. */
    public String headline() {
        CuSeqlens cuSeqlens = partition.cuSeqlens();
        return count(cuSeqlens.documents(), "document") + ", " + count(cuSeqlens.tokens(), "token") + ", "
                + count(ranks.size(), "rank") + ", " + layout + (align > 0 ? ", align " + align : "") + ", " + channels
                + " channels";
    }

    static String count(long number, String noun) {
        return number + " " + noun + (number == 1 ? "" : "s");
    }

    /** Bytes for a person: exact below 10 KiB. */
    static String bytes(long bytes) {
        if (bytes < 10 << 10) {
            return bytes + " B";
        }
        String[] units = {"KiB", "MiB", "GiB", "TiB"};
        double value = bytes / 1024.0;
        int unit = 0;
        while (value >= 1000 && unit + 1 < units.length) {
            value /= 1024;
            unit++;
        }
        return String.format(Locale.ROOT, "%.1f %s", value, units[unit]);
    }
}
