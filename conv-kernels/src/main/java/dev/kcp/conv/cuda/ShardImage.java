package dev.kcp.conv.cuda;

import dev.kcp.conv.LeafTable.Run;
import dev.kcp.conv.LeafTable.Share;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.tree.NodeStack;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A shard's tables as the kernels read them, laid out in one array of integers. A group is a subtree of eight leaves and
 * the work of one block; each of its four warps takes two leaves. A group whose leaves are all here writes one row of
 * scratch, which {@code reduce} sums on; a broken one writes the nodes and shares that can be made of it right away.
 */
final class ShardImage {
    static final int GROUP_LEAVES = 8;
    static final int WARP_LEAVES = 2;
    static final int NEVER = Integer.MAX_VALUE;
    /** Integers of a 16-byte access; each table begins at a multiple. */
    private static final int ALIGNMENT = 4;

    /** Rows of scratch that one of the shard's sums is made of, or the piece that is the sum. */
    private record Sum(int piece, int scratchRow, int scratchRows) {
        static Sum plus(Sum left, Sum right) {
            return new Sum(-1, left.scratchRow, left.scratchRows + right.scratchRows);
        }
    }

    /** Neighbouring leaf slots of a group. */
    private record Slots(int first, int count) {}

    private final List<int[]> segments = new ArrayList<>();
    private final List<Integer> segmentBegin = new ArrayList<>();
    private final List<int[]> pieces = new ArrayList<>();
    private final List<Integer> pieceBegin = new ArrayList<>();
    private final List<int[]> ranges = new ArrayList<>();
    private final int groups;
    private int scratchRows;

    private final int[] words;
    final int begin;
    final int historyRow;
    final int owedRow;
    final int headBegin;
    final int tailBegin;
    final int segmentsAt;
    final int segmentBeginAt;
    final int piecesAt;
    final int pieceBeginAt;
    final int rangesAt;

    ShardImage(ShardTables tables) {
        this(tables, tables.fragments());
    }

    /** @param fragments room for fragments; those that are not there are empty ones after the last */
    ShardImage(ShardTables tables, int fragments) {
        if (fragments < tables.fragments()) {
            throw new IllegalArgumentException(
                    "no room for the fragments: fragments=" + tables.fragments() + " room=" + fragments);
        }
        NodeStack<Sum> sums = new NodeStack<>(tables.packedTokens(), Sum::plus);
        List<Share> shares = tables.shares();
        int made = 0;
        for (int i = 0; i < shares.size(); made++) {
            long group = shares.get(i).key().index() / GROUP_LEAVES;
            int j = i;
            while (j < shares.size() && shares.get(j).key().index() / GROUP_LEAVES == group) {
                j++;
            }
            addGroup(tables.packedTokens(), group, shares.subList(i, j), sums);
            i = j;
        }
        groups = made;
        segmentBegin.add(segments.size());
        pieceBegin.add(pieces.size());
        for (int node = 0; node < sums.entries().size(); node++) {
            Sum sum = sums.entries().get(node).sums();
            if (sum.piece() >= 0) {
                pieces.get(sum.piece())[2] = node;
            } else {
                ranges.add(new int[] {node, sum.scratchRow(), sum.scratchRows(), 0});
            }
        }
        int at = 0;
        begin = at;
        historyRow = at = aligned(at + fragments + 1);
        owedRow = at = aligned(at + ShardTables.HISTORY * fragments);
        headBegin = at = aligned(at + ShardTables.HISTORY * fragments);
        tailBegin = at = aligned(at + fragments);
        segmentsAt = at = aligned(at + fragments);
        segmentBeginAt = at = aligned(at + ALIGNMENT * segments.size());
        piecesAt = at = aligned(at + segmentBegin.size());
        pieceBeginAt = at = aligned(at + ALIGNMENT * pieces.size());
        rangesAt = at = aligned(at + pieceBegin.size());
        words = new int[at + ALIGNMENT * ranges.size()];
        fill(tables, fragments);
    }

    private void addGroup(long packedTokens, long group, List<Share> shares, NodeStack<Sum> sums) {
        pieceBegin.add(pieces.size());
        for (int warp = 0, i = 0; warp < GROUP_LEAVES / WARP_LEAVES; warp++) {
            segmentBegin.add(segments.size());
            int first = segments.size();
            for (; i < shares.size() && slot(shares.get(i)) / WARP_LEAVES == warp; i++) {
                boolean second = slot(shares.get(i)) % WARP_LEAVES == 1;
                shares.get(i).runs().forEach(run -> addRun(first, run, second));
            }
        }
        NodeStack<Slots> stack =
                new NodeStack<>(packedTokens, (left, right) -> new Slots(left.first(), left.count() + right.count()));
        int whole = 0;
        for (Share share : shares) {
            stack.push(share.key(), new Slots(slot(share), 1));
            whole += share.key().isShare() ? 0 : 1;
        }
        boolean complete = whole == Math.min(GROUP_LEAVES, NodeStack.leaves(packedTokens) - group * GROUP_LEAVES);
        for (NodeStack.Entry<Slots> entry : stack.entries()) {
            Sum sum = complete ? new Sum(-1, scratchRows, 1) : new Sum(pieces.size(), 0, 0);
            Slots slots = entry.sums();
            pieces.add(new int[] {slots.first(), slots.count(), scratchRows, complete ? 1 : 0});
            scratchRows += complete ? 1 : 0;
            sums.push(entry.key(), sum);
        }
    }

    private static int slot(Share share) {
        return (int) (share.key().index() % GROUP_LEAVES);
    }

    /** Rows that follow the last segment of the same warp lengthen it. */
    private void addRun(int firstOfWarp, Run run, boolean second) {
        int[] last = segments.size() > firstOfWarp ? segments.getLast() : null;
        if (last != null && last[1] == run.begin()) {
            last[1] = run.end();
            if (second && last[3] == NEVER) {
                last[3] = run.begin();
            }
        } else {
            segments.add(new int[] {run.begin(), run.end(), run.fragment(), second ? run.begin() : NEVER});
        }
    }

    private static int aligned(int words) {
        return (words + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }

    private void fill(ShardTables tables, int room) {
        for (int f = 0; f <= room; f++) {
            words[begin + f] = tables.begin(Math.min(f, tables.fragments()));
        }
        Arrays.fill(words, historyRow, historyRow + ShardTables.HISTORY * room, -1);
        Arrays.fill(words, owedRow, owedRow + ShardTables.HISTORY * room, -1);
        Arrays.fill(words, headBegin, headBegin + room, -1);
        Arrays.fill(words, tailBegin, tailBegin + room, -1);
        for (int f = 0; f < tables.fragments(); f++) {
            for (int j = 0; j < ShardTables.HISTORY; j++) {
                words[historyRow + ShardTables.HISTORY * f + j] = tables.historyRow(f, j + 1);
                words[owedRow + ShardTables.HISTORY * f + j] = tables.owedRow(f, j);
            }
            words[headBegin + f] = tables.continues(f) ? tables.headBegin(f) : -1;
            words[tailBegin + f] = tables.owes(f) ? tables.tailBegin(f) : -1;
        }
        fillQuads(segmentsAt, segments);
        fillSingles(segmentBeginAt, segmentBegin);
        fillQuads(piecesAt, pieces);
        fillSingles(pieceBeginAt, pieceBegin);
        fillQuads(rangesAt, ranges);
    }

    private void fillQuads(int at, List<int[]> quads) {
        for (int i = 0; i < quads.size(); i++) {
            System.arraycopy(quads.get(i), 0, words, at + ALIGNMENT * i, ALIGNMENT);
        }
    }

    private void fillSingles(int at, List<Integer> values) {
        for (int i = 0; i < values.size(); i++) {
            words[at + i] = values.get(i);
        }
    }

    /** All tables; the fields of this class are where each begins. */
    int[] words() {
        return words;
    }

    /** Whether each table begins where another image has it and is as long, so that one may replace the other. */
    boolean isLaidOutAs(ShardImage other) {
        return words.length == other.words.length
                && pieceBeginAt == other.pieceBeginAt
                && rangesAt == other.rangesAt
                && segmentBeginAt == other.segmentBeginAt
                && piecesAt == other.piecesAt
                && groups == other.groups
                && ranges.size() == other.ranges.size()
                && scratchRows == other.scratchRows;
    }

    int groups() {
        return groups;
    }

    int ranges() {
        return ranges.size();
    }

    int scratchRows() {
        return scratchRows;
    }
}
