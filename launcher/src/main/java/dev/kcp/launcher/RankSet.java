package dev.kcp.launcher;

import java.util.BitSet;

/**
 * Some ranks, written as {@code 0,2-5}.
 *
 * @param text as the user wrote it
 * @param ranks the members; not changed any more
 */
record RankSet(String text, BitSet ranks) {
    /** Every rank. */
    static final RankSet ALL = new RankSet("all", null);

    /**
     * Reads a list of ranks and runs of ranks.
     *
     * @throws IllegalArgumentException if it is no such list
     */
    static RankSet parse(String text) {
        BitSet ranks = new BitSet();
        for (String run : text.split(",", -1)) {
            String[] ends = run.strip().split("-", -1);
            try {
                int first = Integer.parseInt(ends[0]);
                int last = ends.length == 1 ? first : Integer.parseInt(ends[1]);
                if (ends.length > 2 || first < 0 || last < first || last >= LaunchSpec.MAX_RANKS) {
                    throw new NumberFormatException();
                }
                ranks.set(first, last + 1);
            } catch (NumberFormatException e) {
                throw new IllegalArgumentException("not a list of ranks such as 0,2-5: ranks=" + text, e);
            }
        }
        return new RankSet(text, ranks);
    }

    boolean contains(int rank) {
        return ranks == null || ranks.get(rank);
    }

    /** Whether any member is below {@code worldSize}. */
    boolean meets(int worldSize) {
        return ranks == null || (ranks.nextSetBit(0) >= 0 && ranks.nextSetBit(0) < worldSize);
    }
}
