package dev.kcp.core;

import java.util.Arrays;

/**
 * All fragments with tokens as the packed batch is walked from left to right, as columns. With a caller's history, the
 * rows before a document count as its first tokens: they are a piece of their own, of the rank that owns the document's
 * first token, and all later tokens move right by as many.
 */
final class Pieces {
    /** Stands in place of a fragment's number where a piece is a caller's history rows. */
    static final int HISTORY = -1;

    final int[] begin;
    final int[] end;
    final int[] document;
    final int[] documentBegin;
    final int[] documentEnd;
    final int[] rank;
    /** The fragment's place in its rank's list, or {@link #HISTORY}. */
    final int[] fragment;
    /** Local row of the first token; of a caller's history, the row in {@code [documents, 3, C]}. */
    final int[] row;

    private final int ranks;

    private Pieces(int ranks, int count) {
        this.ranks = ranks;
        begin = new int[count];
        end = new int[count];
        document = new int[count];
        documentBegin = new int[count];
        documentEnd = new int[count];
        rank = new int[count];
        fragment = new int[count];
        row = new int[count];
    }

    /**
     * @throws IllegalArgumentException naming a fragment outside its document, or a token owned twice or by nobody
     */
    static Pieces of(CuSeqlens cuSeqlens, FragmentTable table) {
        int ranks = table.ranks();
        int lines = table.begin(ranks);
        int[] rowOfLine = new int[lines];
        int[] rankOfLine = new int[lines];
        int count = 0;
        for (int r = 0; r < ranks; r++) {
            long row = 0;
            for (int line = table.begin(r); line < table.begin(r + 1); line++) {
                checkInside(cuSeqlens, table, r, line);
                count += table.length(line) > 0 ? 1 : 0;
                rowOfLine[line] = (int) row;
                rankOfLine[line] = r;
                row += table.length(line);
                if (row > Integer.MAX_VALUE) {
                    throw new IllegalArgumentException("fragments overlap: rank=" + r + " rows=" + row);
                }
            }
        }
        Pieces pieces = new Pieces(ranks, count);
        int to = 0;
        for (int line : table.packedOrder(cuSeqlens)) {
            int length = table.length(line);
            if (length > 0) {
                int d = table.document(line);
                int r = rankOfLine[line];
                int first = cuSeqlens.begin(d) + table.offset(line);
                pieces.set(to, first, first + length, d, cuSeqlens.begin(d), cuSeqlens.end(d));
                pieces.own(to++, r, line - table.begin(r), rowOfLine[line]);
            }
        }
        pieces.checkCover(cuSeqlens);
        return pieces;
    }

    private static void checkInside(CuSeqlens cuSeqlens, FragmentTable table, int rank, int line) {
        int d = table.document(line);
        if (d >= cuSeqlens.documents() || table.offset(line) + table.length(line) > cuSeqlens.length(d)) {
            throw new IllegalArgumentException("fragment outside its document: rank=" + rank + " "
                    + new Fragment(d, table.offset(line), table.length(line))
                    + (d < cuSeqlens.documents()
                            ? " documentLength=" + cuSeqlens.length(d)
                            : " documents=" + cuSeqlens.documents()));
        }
    }

    private void set(int i, int first, int past, int d, int documentFirst, int documentPast) {
        begin[i] = first;
        end[i] = past;
        document[i] = d;
        documentBegin[i] = documentFirst;
        documentEnd[i] = documentPast;
    }

    private void own(int i, int r, int f, int firstRow) {
        rank[i] = r;
        fragment[i] = f;
        row[i] = firstRow;
    }

    private void checkCover(CuSeqlens cuSeqlens) {
        int covered = 0;
        for (int i = 0; i < begin.length; i++) {
            if (begin[i] != covered) {
                throw notOnce(cuSeqlens, begin[i] < covered, Math.min(covered, begin[i]), rank[i]);
            }
            covered = end[i];
        }
        if (covered != cuSeqlens.tokens()) {
            throw notOnce(cuSeqlens, false, covered, -1);
        }
    }

    private static IllegalArgumentException notOnce(CuSeqlens cuSeqlens, boolean twice, int token, int rank) {
        int d = cuSeqlens.documentOf(token);
        return new IllegalArgumentException((twice ? "a token is owned twice" : "a token is owned by no rank")
                + ": document=" + d + " offset=" + (token - cuSeqlens.begin(d))
                + (twice ? " secondOwner=" + rank : ""));
    }

    /** These pieces with the caller's history rows before the first token of each document that has tokens. */
    Pieces with(HistoryCounts history) {
        if (history.isNone()) {
            return this;
        }
        int added = 0;
        for (int i = 0; i < begin.length; i++) {
            added += begin[i] == documentBegin[i] && history.rows(document[i]) > 0 ? 1 : 0;
        }
        Pieces extended = new Pieces(ranks, begin.length + added);
        int to = 0;
        int shift = 0;
        int documentShift = 0;
        for (int i = 0; i < begin.length; i++) {
            int d = document[i];
            int rows = history.rows(d);
            if (begin[i] == documentBegin[i]) {
                documentShift = shift;
                shift = Math.addExact(shift, rows);
            }
            int first = documentBegin[i] + documentShift;
            int past = Math.addExact(documentEnd[i], shift);
            if (begin[i] == documentBegin[i] && rows > 0) {
                extended.set(to, first, first + rows, d, first, past);
                extended.own(to++, rank[i], HISTORY, HistoryCounts.ROWS * (d + 1) - rows);
            }
            extended.set(to, begin[i] + shift, end[i] + shift, d, first, past);
            extended.own(to++, rank[i], fragment[i], row[i]);
        }
        return extended;
    }

    int count() {
        return begin.length;
    }

    int ranks() {
        return ranks;
    }

    /** One past the last token, history rows among them. */
    int tokens() {
        return begin.length == 0 ? 0 : end[begin.length - 1];
    }

    /** The pieces of one rank, rising. */
    int[] of(int wantedRank) {
        int count = 0;
        for (int r : rank) {
            count += r == wantedRank ? 1 : 0;
        }
        int[] own = new int[count];
        for (int i = 0, to = 0; i < rank.length; i++) {
            if (rank[i] == wantedRank) {
                own[to++] = i;
            }
        }
        return own;
    }

    /** The piece that holds a token. */
    int holding(int token) {
        int at = Arrays.binarySearch(begin, token);
        return at >= 0 ? at : -at - 2;
    }
}
