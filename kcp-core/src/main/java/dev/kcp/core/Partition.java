package dev.kcp.core;

import dev.kcp.Digest;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.tree.NodeStack;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Which rank owns which tokens of a packed batch, and in which order a rank holds them. Every token is owned exactly once;
 * a partition that says otherwise cannot be made. Host metadata only, equal on all ranks; two that say the same are equal.
 */
public final class Partition {
    /**
     * Where a packed token lies.
     *
     * @param fragment its fragment's place in the rank's list
     * @param offset its distance from the fragment's first token
     * @param row its local row
     */
    record Place(int rank, int fragment, int offset, int row) {}

    private final CuSeqlens cuSeqlens;
    private final FragmentTable table;
    private final Pieces pieces;
    private final int[] tokens;
    private volatile Long digest;

    Partition(CuSeqlens cuSeqlens, FragmentTable table) {
        this.cuSeqlens = Objects.requireNonNull(cuSeqlens, "cuSeqlens");
        this.table = table;
        if (table.ranks() == 0) {
            throw new IllegalArgumentException("a partition needs a rank: ranks=0");
        }
        pieces = Pieces.of(cuSeqlens, table);
        tokens = new int[table.ranks()];
        for (int i = 0; i < pieces.count(); i++) {
            tokens[pieces.rank[i]] += pieces.end[i] - pieces.begin[i];
        }
    }

    /**
     * Cuts a batch by a rule.
     *
     * @param align cuts fall on packed multiples of this many tokens; 64 makes the partition tree-exact, 1 cuts anywhere
     * @throws IllegalArgumentException if ranks or align is below 1
     */
    public static Partition of(Layout layout, CuSeqlens cuSeqlens, int ranks, int align) {
        if (ranks < 1 || align < 1) {
            throw new IllegalArgumentException("ranks and alignment start at 1: ranks=" + ranks + " align=" + align);
        }
        return new Partition(cuSeqlens, layout.cut(cuSeqlens, ranks, align));
    }

    /**
     * As {@link Layout#ZIGZAG_PER_DOCUMENT}, with documents cut where the caller says.
     *
     * @param cutPoints for each document its 2R-1 cuts, as token offsets in the document that never fall; null for a
     *     document that is cut evenly
     * @throws IllegalArgumentException naming a document whose cuts fall, lie outside, or are too many or few
     */
    public static Partition zigzagPerDocument(CuSeqlens cuSeqlens, int ranks, List<int[]> cutPoints) {
        if (ranks < 1 || cutPoints.size() != cuSeqlens.documents()) {
            throw new IllegalArgumentException("cut points are for each document, ranks start at 1: cutPoints="
                    + cutPoints.size() + " documents=" + cuSeqlens.documents() + " ranks=" + ranks);
        }
        return new Partition(cuSeqlens, DocumentCuts.at(cuSeqlens, ranks, cutPoints));
    }

    /**
     * An explicit partition.
     *
     * @param fragments for every rank its fragments, in the order in which it holds them
     * @throws IllegalArgumentException naming a fragment outside its document, or a token owned twice or by nobody
     */
    public static Partition ofFragments(CuSeqlens cuSeqlens, List<List<Fragment>> fragments) {
        return new Partition(cuSeqlens, FragmentTable.of(fragments));
    }

    /** The batch that is cut. */
    public CuSeqlens cuSeqlens() {
        return cuSeqlens;
    }

    /** R. */
    public int ranks() {
        return table.ranks();
    }

    /** A rank's fragments in the order in which it holds them. */
    public List<Fragment> fragments(int rank) {
        checkRank(rank);
        return table.fragments(rank);
    }

    /** A rank's tokens: its local rows. */
    public int tokens(int rank) {
        checkRank(rank);
        return tokens[rank];
    }

    /** @throws IllegalArgumentException if there is no such rank */
    void checkRank(int rank) {
        if (rank < 0 || rank >= ranks()) {
            throw new IllegalArgumentException("no such rank: rank=" + rank + " ranks=" + ranks());
        }
    }

    /** Place of a fragment's first token in the packed batch. */
    public int packedBegin(Fragment fragment) {
        return cuSeqlens.begin(fragment.document()) + fragment.offset();
    }

    /**
     * True where every leaf of 64 packed tokens lies on one rank. Then dweight and dbias have the same bits for every
     * tree-exact partition of the batch, on any number of ranks.
     */
    public boolean isTreeExact() {
        for (int i = 1; i < pieces.count(); i++) {
            if (pieces.begin[i] % NodeStack.LEAF_TOKENS != 0 && pieces.rank[i] != pieces.rank[i - 1]) {
                return false;
            }
        }
        return true;
    }

    Pieces pieces() {
        return pieces;
    }

    Place placeOf(int token) {
        int piece = pieces.holding(token);
        int offset = token - pieces.begin[piece];
        return new Place(pieces.rank[piece], pieces.fragment[piece], offset, pieces.row[piece] + offset);
    }

    /** A rank's fragments as its programs see them: a caller's history rows are tokens before a document's first. */
    List<ShardTables.Span> spans(int rank, HistoryCounts history) {
        List<ShardTables.Span> spans = new ArrayList<>(table.begin(rank + 1) - table.begin(rank));
        for (int line = table.begin(rank); line < table.begin(rank + 1); line++) {
            int document = table.document(line);
            int begin = cuSeqlens.begin(document);
            spans.add(new ShardTables.Span(
                    begin + table.offset(line),
                    table.length(line),
                    begin - history.rows(document),
                    cuSeqlens.end(document)));
        }
        return spans;
    }

    /** A digest of all that a partition says; equal partitions have equal digests on every machine. */
    public long digest() {
        if (digest == null) {
            digest = computeDigest();
        }
        return digest;
    }

    private long computeDigest() {
        int lines = table.begin(ranks());
        ByteBuffer bytes =
                ByteBuffer.allocate(Math.multiplyExact(2 + cuSeqlens.documents() + ranks() + 3 * lines, Integer.BYTES));
        IntBuffer ints = bytes.asIntBuffer();
        ints.put(cuSeqlens.documents()).put(cuSeqlens.offsets());
        for (int rank = 0; rank < ranks(); rank++) {
            ints.put(table.begin(rank + 1) - table.begin(rank));
            for (int line = table.begin(rank); line < table.begin(rank + 1); line++) {
                ints.put(table.document(line)).put(table.offset(line)).put(table.length(line));
            }
        }
        return Digest.of(bytes);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Partition that && cuSeqlens.equals(that.cuSeqlens) && table.equals(that.table);
    }

    @Override
    public int hashCode() {
        return 31 * cuSeqlens.hashCode() + table.hashCode();
    }

    /** Ranks, sizes and digest; see {@link PartitionJson} for all of it. */
    @Override
    public String toString() {
        return "Partition[ranks=" + ranks() + " documents=" + cuSeqlens.documents() + " tokens=" + cuSeqlens.tokens()
                + " fragments=" + table.begin(ranks()) + " treeExact=" + isTreeExact() + " digest="
                + Long.toHexString(digest()) + "]";
    }
}
