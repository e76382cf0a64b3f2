package dev.kcp.core;

import java.util.AbstractList;
import java.util.Arrays;
import java.util.List;
import java.util.RandomAccess;

/** All fragments of a partition as columns: one rank's after another's, each rank's in the order in which it holds them. */
final class FragmentTable {
    private final int[] rankBegin;
    private final int[] document;
    private final int[] offset;
    private final int[] length;
    /** The ranks of the lines in packed order, each rank's lines in its own; null where nobody knows that order. */
    private final int[] packedRanks;

    private FragmentTable(int[] rankBegin, int[] document, int[] offset, int[] length, int[] packedRanks) {
        this.packedRanks = packedRanks;
        this.rankBegin = rankBegin;
        this.document = document;
        this.offset = offset;
        this.length = length;
    }

    static FragmentTable of(List<List<Fragment>> fragments) {
        Builder builder = Builder.inAnyOrder(fragments.size());
        for (int rank = 0; rank < fragments.size(); rank++) {
            for (Fragment fragment : fragments.get(rank)) {
                builder.add(rank, fragment.document(), fragment.offset(), fragment.length());
            }
        }
        return builder.build();
    }

    int ranks() {
        return rankBegin.length - 1;
    }

    /** First line of a rank; {@code begin(ranks())} is the end of all. */
    int begin(int rank) {
        return rankBegin[rank];
    }

    /** All lines in packed order; sorted only where they were not made in it. */
    int[] packedOrder(CuSeqlens cuSeqlens) {
        int[] order = new int[document.length];
        if (packedRanks != null) {
            int[] next = Arrays.copyOf(rankBegin, ranks());
            for (int i = 0; i < order.length; i++) {
                order[i] = next[packedRanks[i]]++;
            }
        } else {
            long[] keys = new long[order.length];
            for (int line = 0; line < keys.length; line++) {
                keys[line] = (long) (cuSeqlens.begin(document[line]) + offset[line]) << Integer.SIZE | line;
            }
            Arrays.sort(keys);
            for (int i = 0; i < order.length; i++) {
                order[i] = (int) keys[i];
            }
        }
        return order;
    }

    int document(int line) {
        return document[line];
    }

    int offset(int line) {
        return offset[line];
    }

    int length(int line) {
        return length[line];
    }

    /** A rank's fragments, made as they are read. */
    List<Fragment> fragments(int rank) {
        int begin = rankBegin[rank];
        int size = rankBegin[rank + 1] - begin;
        final class View extends AbstractList<Fragment> implements RandomAccess {
            @Override
            public Fragment get(int index) {
                java.util.Objects.checkIndex(index, size);
                int line = begin + index;
                return new Fragment(document[line], offset[line], length[line]);
            }

            @Override
            public int size() {
                return size;
            }
        }
        return new View();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FragmentTable that
                && Arrays.equals(rankBegin, that.rankBegin)
                && Arrays.equals(document, that.document)
                && Arrays.equals(offset, that.offset)
                && Arrays.equals(length, that.length);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(new int[] {
            Arrays.hashCode(rankBegin), Arrays.hashCode(document), Arrays.hashCode(offset), Arrays.hashCode(length)
        });
    }

    /** Takes each rank's fragments in its own order. */
    static final class Builder {
        private static final int FIELDS = 3;

        private final int[][] lines;
        private final int[] counts;
        private final boolean inPackedOrder;
        private int[] packedRanks = new int[64];
        private int all;

        private Builder(int ranks, boolean inPackedOrder) {
            this.inPackedOrder = inPackedOrder;
            lines = new int[ranks][FIELDS * 8];
            counts = new int[ranks];
        }

        static Builder inAnyOrder(int ranks) {
            return new Builder(ranks, false);
        }

        /** For fragments that come as the packed batch is walked from left to right. */
        static Builder inPackedOrder(int ranks) {
            return new Builder(ranks, true);
        }

        void add(int rank, int document, int offset, int length) {
            if (inPackedOrder) {
                if (all == packedRanks.length) {
                    packedRanks = Arrays.copyOf(packedRanks, 2 * all);
                }
                packedRanks[all++] = rank;
            }
            int at = FIELDS * counts[rank]++;
            if (at == lines[rank].length) {
                lines[rank] = Arrays.copyOf(lines[rank], 2 * at);
            }
            int[] to = lines[rank];
            to[at] = document;
            to[at + 1] = offset;
            to[at + 2] = length;
        }

        FragmentTable build() {
            int[] rankBegin = new int[counts.length + 1];
            for (int rank = 0; rank < counts.length; rank++) {
                rankBegin[rank + 1] = rankBegin[rank] + counts[rank];
            }
            int count = rankBegin[counts.length];
            int[] document = new int[count];
            int[] offset = new int[count];
            int[] length = new int[count];
            for (int rank = 0; rank < counts.length; rank++) {
                int[] from = lines[rank];
                for (int i = 0, line = rankBegin[rank]; i < counts[rank]; i++, line++) {
                    document[line] = from[FIELDS * i];
                    offset[line] = from[FIELDS * i + 1];
                    length[line] = from[FIELDS * i + 2];
                }
            }
            return new FragmentTable(rankBegin, document, offset, length, inPackedOrder ? packedRanks : null);
        }
    }
}
