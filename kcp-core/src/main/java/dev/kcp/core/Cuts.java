package dev.kcp.core;

import dev.kcp.conv.ShardTables;
import dev.kcp.conv.ShardTables.SeamRows;
import java.util.ArrayList;
import java.util.List;

/**
 * The cuts of a partition without its documents: what stays the same from batch to batch where every batch is cut at the
 * same tokens, as contiguous and zigzag layouts do. Fragments that follow one another in the packed batch and on their rank
 * are one part; all parts are of one document. The rows that travel in it are those of any batch with these cuts, and more.
 */
final class Cuts {
    private final Partition partition;

    private Cuts(Partition partition) {
        this.partition = partition;
    }

    static Cuts of(Partition batch) {
        List<List<Fragment>> parts = new ArrayList<>();
        for (int rank = 0; rank < batch.ranks(); rank++) {
            List<Fragment> own = new ArrayList<>();
            for (Fragment fragment : batch.fragments(rank)) {
                append(own, new Fragment(0, batch.packedBegin(fragment), fragment.length()));
            }
            parts.add(own);
        }
        return new Cuts(
                Partition.ofFragments(CuSeqlens.ofLengths(batch.cuSeqlens().tokens()), parts));
    }

    /** The same tokens in the same order, with a document's fragments that follow one another as one. */
    static Partition coalesced(Partition batch) {
        List<List<Fragment>> all = new ArrayList<>();
        for (int rank = 0; rank < batch.ranks(); rank++) {
            List<Fragment> own = new ArrayList<>();
            batch.fragments(rank).forEach(fragment -> append(own, fragment));
            all.add(own);
        }
        return Partition.ofFragments(batch.cuSeqlens(), all);
    }

    private static void append(List<Fragment> list, Fragment next) {
        Fragment last = list.isEmpty() ? null : list.getLast();
        if (last != null && last.document() == next.document() && last.offset() + last.length() == next.offset()) {
            list.removeLast();
            list.add(new Fragment(last.document(), last.offset(), last.length() + next.length()));
        } else if (next.length() > 0) {
            list.add(next);
        }
    }

    /** The parts, as fragments of one document. */
    Partition partition() {
        return partition;
    }

    /** Whether a batch with these cuts may take the place of one with the others. */
    boolean isSameAs(Cuts other) {
        return partition.equals(other.partition);
    }

    /**
     * Places of fragments' head and tail rows where their parts have them: a fragment that continues begins its part, and
     * one that owes ends it.
     *
     * @param fragments of one rank
     * @param parts of that rank, each one or more fragments
     */
    static SeamRows seamRows(List<ShardTables.Span> fragments, List<ShardTables.Span> parts, SeamRows ofParts) {
        int[] headBegin = new int[fragments.size()];
        int[] tailBegin = new int[fragments.size()];
        int part = -1;
        int partEnd = 0;
        int row = 0;
        for (int f = 0; f < headBegin.length; f++) {
            ShardTables.Span fragment = fragments.get(f);
            while (fragment.length() > 0 && row >= partEnd) {
                partEnd += parts.get(++part).length();
            }
            headBegin[f] = fragment.continues() ? ofParts.headBegin()[part] : -1;
            tailBegin[f] = fragment.owes() ? ofParts.tailBegin()[part] : -1;
            row += fragment.length();
        }
        return new SeamRows(headBegin, tailBegin, ofParts.headRows(), ofParts.tailRows());
    }
}
