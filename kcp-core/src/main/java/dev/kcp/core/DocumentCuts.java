package dev.kcp.core;

import java.util.List;

/** Cuts each document by itself into 2R parts; rank r holds part r, then part 2R-1-r. */
final class DocumentCuts {
    private DocumentCuts() {}

    /** Even parts, with cuts on packed multiples of {@code align}. */
    static FragmentTable even(CuSeqlens cuSeqlens, int ranks, int align) {
        FragmentTable.Builder fragments = FragmentTable.Builder.inPackedOrder(ranks);
        int[] cuts = new int[2 * ranks + 1];
        for (int d = 0; d < cuSeqlens.documents(); d++) {
            evenCuts(cuSeqlens, d, align, cuts);
            deal(d, cuts, fragments);
        }
        return fragments.build();
    }

    /** Parts as the caller cuts them, see {@link Partition#zigzagPerDocument}. */
    static FragmentTable at(CuSeqlens cuSeqlens, int ranks, List<int[]> cutPoints) {
        FragmentTable.Builder fragments = FragmentTable.Builder.inPackedOrder(ranks);
        int[] cuts = new int[2 * ranks + 1];
        for (int d = 0; d < cuSeqlens.documents(); d++) {
            int[] wanted = cutPoints.get(d);
            if (wanted == null) {
                evenCuts(cuSeqlens, d, 1, cuts);
            } else {
                check(cuSeqlens, d, ranks, wanted);
                System.arraycopy(wanted, 0, cuts, 1, wanted.length);
                cuts[0] = 0;
                cuts[2 * ranks] = cuSeqlens.length(d);
            }
            deal(d, cuts, fragments);
        }
        return fragments.build();
    }

    private static void check(CuSeqlens cuSeqlens, int document, int ranks, int[] wanted) {
        if (wanted.length != 2 * ranks - 1) {
            throw new IllegalArgumentException(
                    "a document has 2R-1 cuts: document=" + document + " cuts=" + wanted.length + " ranks=" + ranks);
        }
        int last = 0;
        for (int cut : wanted) {
            if (cut < last || cut > cuSeqlens.length(document)) {
                throw new IllegalArgumentException("cuts must never fall and lie in their document: document="
                        + document + " cut=" + cut + " before=" + last + " documentLength="
                        + cuSeqlens.length(document));
            }
            last = cut;
        }
    }

    /**
     * Document offsets of the cuts: aligned down in the packed batch, but never out of the multiples that the document
     * holds. A document that holds none is part 0 whole.
     */
    private static void evenCuts(CuSeqlens cuSeqlens, int document, int align, int[] cuts) {
        int begin = cuSeqlens.begin(document);
        int end = cuSeqlens.end(document);
        int parts = cuts.length - 1;
        long firstMultiple = ((long) begin + align - 1) / align * align;
        long lastMultiple = (long) end / align * align;
        cuts[0] = 0;
        cuts[parts] = end - begin;
        for (int part = 1; part < parts; part++) {
            if (align == 1) {
                cuts[part] = (int) ((long) part * (end - begin) / parts);
            } else if (firstMultiple > lastMultiple) {
                cuts[part] = end - begin;
            } else {
                long cut = begin + (long) part * (end - begin) / parts;
                cuts[part] = (int) (Math.clamp(cut - cut % align, firstMultiple, lastMultiple) - begin);
            }
        }
    }

    private static void deal(int document, int[] cuts, FragmentTable.Builder fragments) {
        int parts = cuts.length - 1;
        for (int part = 0; part < parts; part++) {
            if (cuts[part] < cuts[part + 1]) {
                int rank = Math.min(part, parts - 1 - part);
                fragments.add(rank, document, cuts[part], cuts[part + 1] - cuts[part]);
            }
        }
    }
}
