package dev.kcp.core;

import dev.kcp.conv.NodeStack;
import dev.kcp.conv.ShardTables;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;

/**
 * Which rank owns which tokens of a packed batch, and in which order a rank holds them. Every token is owned exactly once;
 * a partition that says otherwise cannot be made. Host metadata only, equal on all ranks.
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

    /** A fragment with its place, as the packed batch is walked from left to right. */
    record Piece(int packedBegin, int packedEnd, int document, int rank, int fragment, int row) {}

    private final CuSeqlens cuSeqlens;
    private final List<List<Fragment>> fragments;
    private final List<Piece> pieces;
    private final int[] pieceBegin;
    private final int[] tokens;

    private Partition(CuSeqlens cuSeqlens, List<List<Fragment>> fragments) {
        this.cuSeqlens = Objects.requireNonNull(cuSeqlens, "cuSeqlens");
        if (fragments.isEmpty()) {
            throw new IllegalArgumentException("a partition needs a rank: ranks=0");
        }
        this.fragments = fragments.stream().map(List::copyOf).toList();
        this.tokens = new int[fragments.size()];
        this.pieces = pieces();
        this.pieceBegin = pieces.stream().mapToInt(Piece::packedBegin).toArray();
        checkCover();
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
     * An explicit partition.
     *
     * @param fragments for every rank its fragments, in the order in which it holds them
     * @throws IllegalArgumentException naming a fragment outside its document, or a token owned twice or by nobody
     */
    public static Partition ofFragments(CuSeqlens cuSeqlens, List<List<Fragment>> fragments) {
        return new Partition(cuSeqlens, fragments);
    }

    private List<Piece> pieces() {
        List<Piece> all = new ArrayList<>();
        for (int rank = 0; rank < fragments.size(); rank++) {
            int row = 0;
            for (int f = 0; f < fragments.get(rank).size(); f++) {
                Fragment fragment = fragments.get(rank).get(f);
                if (fragment.document() >= cuSeqlens.documents()
                        || fragment.offset() + fragment.length() > cuSeqlens.length(fragment.document())) {
                    throw new IllegalArgumentException("fragment outside its document: rank=" + rank + " " + fragment
                            + (fragment.document() < cuSeqlens.documents()
                                    ? " documentLength=" + cuSeqlens.length(fragment.document())
                                    : " documents=" + cuSeqlens.documents()));
                }
                if (fragment.length() > 0) {
                    int begin = packedBegin(fragment);
                    all.add(new Piece(begin, begin + fragment.length(), fragment.document(), rank, f, row));
                    if (row > Integer.MAX_VALUE - fragment.length()) {
                        throw new IllegalArgumentException("fragments overlap: rank=" + rank + " " + fragment);
                    }
                    row += fragment.length();
                }
            }
            tokens[rank] = row;
        }
        all.sort(Comparator.comparingInt(Piece::packedBegin));
        return all;
    }

    private void checkCover() {
        int end = 0;
        for (Piece piece : pieces) {
            if (piece.packedBegin() != end) {
                throw notOnce(piece.packedBegin() < end, Math.min(end, piece.packedBegin()), piece.rank());
            }
            end = piece.packedEnd();
        }
        if (end != cuSeqlens.tokens()) {
            throw notOnce(false, end, -1);
        }
    }

    private IllegalArgumentException notOnce(boolean twice, int token, int rank) {
        int document = cuSeqlens.documentOf(token);
        return new IllegalArgumentException((twice ? "a token is owned twice" : "a token is owned by no rank")
                + ": document=" + document + " offset=" + (token - cuSeqlens.begin(document))
                + (twice ? " secondOwner=" + rank : ""));
    }

    public CuSeqlens cuSeqlens() {
        return cuSeqlens;
    }

    public int ranks() {
        return fragments.size();
    }

    /** A rank's fragments in the order in which it holds them. */
    public List<Fragment> fragments(int rank) {
        return fragments.get(rank);
    }

    /** A rank's tokens: its local rows. */
    public int tokens(int rank) {
        return tokens[rank];
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
        for (int i = 1; i < pieces.size(); i++) {
            Piece piece = pieces.get(i);
            if (piece.packedBegin() % NodeStack.LEAF_TOKENS != 0
                    && piece.rank() != pieces.get(i - 1).rank()) {
                return false;
            }
        }
        return true;
    }

    /** All fragments with tokens, in packed order. */
    List<Piece> inPackedOrder() {
        return pieces;
    }

    Place placeOf(int token) {
        int at = Arrays.binarySearch(pieceBegin, token);
        Piece piece = pieces.get(at >= 0 ? at : -at - 2);
        int offset = token - piece.packedBegin();
        return new Place(piece.rank(), piece.fragment(), offset, piece.row() + offset);
    }

    List<ShardTables.Span> spans(int rank) {
        return fragments.get(rank).stream()
                .map(fragment -> new ShardTables.Span(
                        packedBegin(fragment),
                        fragment.length(),
                        cuSeqlens.begin(fragment.document()),
                        cuSeqlens.end(fragment.document())))
                .toList();
    }

    /** A digest of all that a partition says; equal partitions have equal digests on every machine. */
    public long digest() {
        int count = 2
                + cuSeqlens.documents()
                + fragments.stream().mapToInt(list -> 1 + 3 * list.size()).sum();
        ByteBuffer bytes = ByteBuffer.allocate(Math.multiplyExact(count, Integer.BYTES));
        bytes.putInt(cuSeqlens.documents());
        for (int offset : cuSeqlens.offsets()) {
            bytes.putInt(offset);
        }
        for (List<Fragment> list : fragments) {
            bytes.putInt(list.size());
            for (Fragment fragment : list) {
                bytes.putInt(fragment.document()).putInt(fragment.offset()).putInt(fragment.length());
            }
        }
        try {
            return ByteBuffer.wrap(MessageDigest.getInstance("SHA-256").digest(bytes.array()))
                    .getLong();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }
}
