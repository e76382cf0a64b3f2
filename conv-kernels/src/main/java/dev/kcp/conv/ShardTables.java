package dev.kcp.conv;

import static dev.kcp.Arguments.present;

import dev.kcp.conv.tree.NodeKey;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;

/**
 * What the programs need to know about the rows of one shard: where its fragments begin, where each finds its history
 * rows, which rows it owes to fragments elsewhere, and which sums of the reduction tree its tokens make. A single-rank
 * call is the shard whose fragments are whole documents.
 *
 * <p>Local rows are the fragments' tokens in fragment order. All arrays are owned by this object; do not write to them.
 */
public final class ShardTables implements Shard {
    /** History rows of a token: taps - 1. */
    public static final int HISTORY = 3;

    /**
     * One document's part inside the shard.
     *
     * @param packedBegin place of its first token in the packed batch
     * @param length tokens
     * @param documentBegin packed begin of its document
     * @param documentEnd packed end of its document
     */
    public record Span(int packedBegin, int length, int documentBegin, int documentEnd) {
        /** @throws IllegalArgumentException if the fragment reaches outside its document */
        public Span {
            if (length < 0 || packedBegin < 0 || documentBegin > packedBegin || documentEnd - length < packedBegin) {
                throw new IllegalArgumentException("fragment outside its document: packedBegin=" + packedBegin
                        + " length=" + length + " documentBegin=" + documentBegin + " documentEnd=" + documentEnd);
            }
        }

        /** True where its document has tokens before it. */
        public boolean continues() {
            return length > 0 && packedBegin > documentBegin;
        }

        /** True where its document has tokens after it. */
        public boolean owes() {
            return length > 0 && packedBegin + length < documentEnd;
        }
    }

    /**
     * Places in the buffers of head rows, the first up to three of every continuing fragment, and of tail rows, the last up
     * to three of every owing one.
     *
     * @param headBegin first head row of each fragment; -1 for those that do not continue
     * @param tailBegin first tail row of each fragment; -1 for those that owe nothing
     */
    public record SeamRows(int[] headBegin, int[] tailBegin, int headRows, int tailRows) {
        /** @throws IllegalArgumentException if something is missing or negative */
        public SeamRows {
            present("headBegin", headBegin);
            present("tailBegin", tailBegin);
            if (headRows < 0 || tailRows < 0) {
                throw new IllegalArgumentException("negative rows: headRows=" + headRows + " tailRows=" + tailRows);
            }
        }

        /** One fragment's rows after another's. */
        public static SeamRows of(List<Span> spans) {
            int[] headBegin = new int[spans.size()];
            int[] tailBegin = new int[spans.size()];
            int heads = 0;
            int tails = 0;
            for (int f = 0; f < spans.size(); f++) {
                Span span = spans.get(f);
                int rows = Math.min(HISTORY, span.length());
                headBegin[f] = span.continues() ? heads : -1;
                tailBegin[f] = span.owes() ? tails : -1;
                heads += span.continues() ? rows : 0;
                tails += span.owes() ? rows : 0;
            }
            return new SeamRows(headBegin, tailBegin, heads, tails);
        }
    }

    private final long packedTokens;
    private final int[] begin;
    private final int[] historyRow;
    private final int[] owedRow;
    private final int[] headBegin;
    private final int[] tailBegin;
    private final int headRows;
    private final int tailRows;
    private final int historyRows;
    private final int receivedRows;
    private final LeafTable leaves;

    private ShardTables(long packedTokens, List<Span> spans, int[] historyRow, int[] owedRow, SeamRows seams) {
        this.packedTokens = packedTokens;
        this.historyRow = historyRow;
        this.owedRow = owedRow;
        begin = begins(spans);
        headBegin = seams.headBegin();
        tailBegin = seams.tailBegin();
        headRows = seams.headRows();
        tailRows = seams.tailRows();
        historyRows = rowsNamed(historyRow);
        receivedRows = rowsNamed(owedRow);
        leaves = LeafTable.of(packedTokens, spans);
    }

    /** Rows that a pool has at least: one past the last that is named. */
    private static int rowsNamed(int[] poolRows) {
        return Math.addExact(Arrays.stream(poolRows).max().orElse(-1), 1);
    }

    /** First local row of each fragment, and their end. */
    static int[] begins(List<Span> spans) {
        int[] begin = new int[spans.size() + 1];
        for (int f = 0; f < spans.size(); f++) {
            begin[f + 1] = Math.addExact(begin[f], spans.get(f).length());
        }
        return begin;
    }

    /**
     * A shard of a partitioned batch.
     *
     * @param packedTokens tokens of the whole batch
     * @param spans its fragments in local order
     * @param historyRow {@code [3 * fragments]}: the history pool's row for the token 1, 2, 3 before fragment f at 3f,
     *     3f+1, 3f+2; -1 where the document has none
     * @param owedRow {@code [3 * fragments]}: the g pool's row for the token 0, 1, 2 after the end of fragment f; -1 where
     *     the document has none
     */
    public static ShardTables of(long packedTokens, List<Span> spans, int[] historyRow, int[] owedRow) {
        return of(packedTokens, spans, historyRow, owedRow, SeamRows.of(spans));
    }

    /** As the other form, with places for head and tail rows that were chosen elsewhere. */
    public static ShardTables of(long packedTokens, List<Span> spans, int[] historyRow, int[] owedRow, SeamRows seams) {
        present("spans", spans);
        present("seams", seams);
        if (present("historyRow", historyRow).length != HISTORY * spans.size()
                || present("owedRow", owedRow).length != HISTORY * spans.size()) {
            throw new IllegalArgumentException("three rows per fragment: fragments=" + spans.size() + " historyRows="
                    + historyRow.length + " owedRows=" + owedRow.length);
        }
        for (int i = 0; i < historyRow.length; i++) {
            if (historyRow[i] < -1 || owedRow[i] < -1) {
                throw new IllegalArgumentException(
                        "not a row: historyRow[" + i + "]=" + historyRow[i] + " owedRow[" + i + "]=" + owedRow[i]);
            }
        }
        seamRows("headBegin", seams.headBegin(), seams.headRows(), spans, Span::continues);
        seamRows("tailBegin", seams.tailBegin(), seams.tailRows(), spans, Span::owes);
        return new ShardTables(packedTokens, List.copyOf(spans), historyRow.clone(), owedRow.clone(), seams);
    }

    private static void seamRows(String name, int[] begin, int rows, List<Span> spans, Predicate<Span> has) {
        if (begin.length != spans.size()) {
            throw new IllegalArgumentException(
                    "one number per fragment: fragments=" + spans.size() + " " + name + "=" + begin.length);
        }
        for (int f = 0; f < begin.length; f++) {
            Span span = present("span", spans.get(f));
            int room = rows - Math.min(HISTORY, span.length());
            if (has.test(span) ? begin[f] < 0 || begin[f] > room : begin[f] != -1) {
                throw new IllegalArgumentException("a fragment's rows outside the buffer: fragment=" + f + " length="
                        + span.length() + " " + name + "=" + begin[f] + " rows=" + rows);
            }
        }
    }

    /** Whole documents: nothing before a document's first token, nothing owed. */
    public static ShardTables ofDocuments(int[] cuSeqlens) {
        ConvChecks.rising(cuSeqlens);
        List<Span> spans = new ArrayList<>(cuSeqlens.length - 1);
        for (int d = 0; d + 1 < cuSeqlens.length; d++) {
            spans.add(new Span(cuSeqlens[d], cuSeqlens[d + 1] - cuSeqlens[d], cuSeqlens[d], cuSeqlens[d + 1]));
        }
        int[] none = new int[HISTORY * spans.size()];
        Arrays.fill(none, -1);
        return new ShardTables(cuSeqlens[cuSeqlens.length - 1], spans, none, none, SeamRows.of(spans));
    }

    /** Tokens of the whole packed batch. */
    public long packedTokens() {
        return packedTokens;
    }

    /** Fragments of this rank. */
    public int fragments() {
        return begin.length - 1;
    }

    /** Local rows that belong to fragments; rows after them are slack. */
    @Override
    public int rows() {
        return begin[fragments()];
    }

    /** First local row of a fragment; {@code begin(fragments())} is the end. */
    public int begin(int fragment) {
        return begin[fragment];
    }

    /** One past a fragment's last local row. */
    public int end(int fragment) {
        return begin[fragment + 1];
    }

    /** History pool row of the token {@code distance} (1 to 3) before the fragment, or -1. */
    public int historyRow(int fragment, int distance) {
        return historyRow[HISTORY * fragment + distance - 1];
    }

    /** g pool row of the token {@code distance} (0 to 2) after the fragment's end, or -1. */
    public int owedRow(int fragment, int distance) {
        return owedRow[HISTORY * fragment + distance];
    }

    /** True where the fragment's document has tokens before it, which its first rows need. */
    public boolean continues(int fragment) {
        return headBegin[fragment] >= 0;
    }

    /** True where the fragment's document has tokens after it, which its last rows feed. */
    public boolean owes(int fragment) {
        return tailBegin[fragment] >= 0;
    }

    /** First rows of a continuing fragment that need history from elsewhere: at most three. */
    public int seamRows(int fragment) {
        return continues(fragment) ? Math.min(HISTORY, end(fragment) - begin(fragment)) : 0;
    }

    /** Last rows of a fragment that owe their dx to g rows from elsewhere: at most three. */
    public int owedRows(int fragment) {
        return owes(fragment) ? Math.min(HISTORY, end(fragment) - begin(fragment)) : 0;
    }

    /** First row of a continuing fragment in the buffer of all head rows. */
    public int headBegin(int fragment) {
        return headBegin[fragment];
    }

    /** First row of an owing fragment in the buffer of all tail rows. */
    public int tailBegin(int fragment) {
        return tailBegin[fragment];
    }

    @Override
    public int headRows() {
        return headRows;
    }

    @Override
    public int tailRows() {
        return tailRows;
    }

    @Override
    public int historyRows() {
        return historyRows;
    }

    @Override
    public int receivedRows() {
        return receivedRows;
    }

    /** The shard's tokens by leaf, in token order. */
    public List<LeafTable.Share> shares() {
        return leaves.shares();
    }

    /** The sums that the shard's tokens make, in token order: its largest whole nodes and its shares of broken leaves. */
    public List<NodeKey> nodes() {
        return leaves.nodes();
    }

    @Override
    public int nodeCount() {
        return leaves.nodes().size();
    }

    /** Nothing to free: the tables are plain arrays. */
    @Override
    public void close() {}

    /** The fragment that holds a local row below {@link #rows()}. */
    public int fragmentOf(int row) {
        int at = Arrays.binarySearch(begin, row);
        int fragment = at >= 0 ? at : -at - 2;
        while (end(fragment) <= row) {
            fragment++;
        }
        return fragment;
    }
}
