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

    private FragmentTable(int[] rankBegin, int[] document, int[] offset, int[] length) {
        this.rankBegin = rankBegin;
        this.document = document;
        this.offset = offset;
        this.length = length;
    }

    static FragmentTable of(List<List<Fragment>> fragments) {
        Builder builder = new Builder(fragments.size());
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

    /** Takes fragments in any order of ranks, each rank's in its own order. */
    static final class Builder {
        private static final int FIELDS = 3;

        private final int[][] lines;
        private final int[] counts;

        Builder(int ranks) {
            lines = new int[ranks][FIELDS * 8];
            counts = new int[ranks];
        }

        void add(int rank, int document, int offset, int length) {
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
            int all = rankBegin[counts.length];
            int[] document = new int[all];
            int[] offset = new int[all];
            int[] length = new int[all];
            for (int rank = 0; rank < counts.length; rank++) {
                int[] from = lines[rank];
                for (int i = 0, line = rankBegin[rank]; i < counts[rank]; i++, line++) {
                    document[line] = from[FIELDS * i];
                    offset[line] = from[FIELDS * i + 1];
                    length[line] = from[FIELDS * i + 2];
                }
            }
            return new FragmentTable(rankBegin, document, offset, length);
        }
    }
}
