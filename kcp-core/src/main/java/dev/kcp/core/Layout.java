package dev.kcp.core;

import java.util.ArrayList;
import java.util.List;

/** Rules that cut a packed batch over ranks. R = ranks, E = tokens. */
public enum Layout {
    /** Rank i owns packed tokens from floor(i E / R) on. */
    CONTIGUOUS("contiguous"),
    /** 2R parts of the packed batch; rank r holds part r, then part 2R-1-r, which evens out causal attention. */
    ZIGZAG("zigzag"),
    /** As zigzag, each document by itself; a rank holds its two parts of document 0, then those of document 1. */
    ZIGZAG_PER_DOCUMENT("zigzagPerDocument");

    private final String label;

    Layout(String label) {
        this.label = label;
    }

    /** The name in commands and reports. */
    public String label() {
        return label;
    }

    /**
     * The layout of this name.
     *
     * @throws IllegalArgumentException naming the choices
     */
    public static Layout parse(String label) {
        List<String> labels = new ArrayList<>();
        for (Layout layout : values()) {
            if (layout.label.equals(label)) {
                return layout;
            }
            labels.add(layout.label);
        }
        throw new IllegalArgumentException("no such layout, choose one of " + labels + ": layout=" + label);
    }

    List<List<Fragment>> cut(CuSeqlens cuSeqlens, int ranks, int align) {
        List<List<Fragment>> fragments = new ArrayList<>();
        for (int rank = 0; rank < ranks; rank++) {
            fragments.add(new ArrayList<>());
        }
        switch (this) {
            case CONTIGUOUS -> {
                for (int rank = 0; rank < ranks; rank++) {
                    addPart(
                            cuSeqlens,
                            packedCut(cuSeqlens, rank, ranks, align),
                            packedCut(cuSeqlens, rank + 1, ranks, align),
                            fragments.get(rank));
                }
            }
            case ZIGZAG -> {
                for (int rank = 0; rank < ranks; rank++) {
                    for (int part : new int[] {rank, 2 * ranks - 1 - rank}) {
                        addPart(
                                cuSeqlens,
                                packedCut(cuSeqlens, part, 2 * ranks, align),
                                packedCut(cuSeqlens, part + 1, 2 * ranks, align),
                                fragments.get(rank));
                    }
                }
            }
            case ZIGZAG_PER_DOCUMENT -> {
                for (int d = 0; d < cuSeqlens.documents(); d++) {
                    for (int rank = 0; rank < ranks; rank++) {
                        for (int part : new int[] {rank, 2 * ranks - 1 - rank}) {
                            int begin = documentCut(cuSeqlens, d, part, 2 * ranks, align);
                            int end = documentCut(cuSeqlens, d, part + 1, 2 * ranks, align);
                            if (begin < end) {
                                fragments.get(rank).add(new Fragment(d, begin - cuSeqlens.begin(d), end - begin));
                            }
                        }
                    }
                }
            }
        }
        return fragments;
    }

    /** Begin of a part of the packed batch; the begin of part {@code parts} is E. */
    private static int packedCut(CuSeqlens cuSeqlens, int part, int parts, int align) {
        if (part == parts) {
            return cuSeqlens.tokens();
        }
        int cut = (int) ((long) part * cuSeqlens.tokens() / parts);
        return cut - cut % align;
    }

    /**
     * Begin of a document's part, as a packed token: aligned down, but never out of the multiples that the document
     * holds. A document that holds none is part 0 whole.
     */
    private static int documentCut(CuSeqlens cuSeqlens, int document, int part, int parts, int align) {
        int begin = cuSeqlens.begin(document);
        int end = cuSeqlens.end(document);
        long firstMultiple = ((long) begin + align - 1) / align * align;
        long lastMultiple = (long) end / align * align;
        if (part == 0) {
            return begin;
        }
        if (part == parts || firstMultiple > lastMultiple) {
            return end;
        }
        long cut = begin + (long) part * (end - begin) / parts;
        return (int) Math.clamp(cut - cut % align, firstMultiple, lastMultiple);
    }

    private static void addPart(CuSeqlens cuSeqlens, int begin, int end, List<Fragment> to) {
        if (begin == end) {
            return;
        }
        for (int d = cuSeqlens.documentOf(begin); d < cuSeqlens.documents() && cuSeqlens.begin(d) < end; d++) {
            int from = Math.max(begin, cuSeqlens.begin(d));
            int until = Math.min(end, cuSeqlens.end(d));
            if (from < until) {
                to.add(new Fragment(d, from - cuSeqlens.begin(d), until - from));
            }
        }
    }
}
