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

    FragmentTable cut(CuSeqlens cuSeqlens, int ranks, int align) {
        if (this == ZIGZAG_PER_DOCUMENT) {
            return DocumentCuts.even(cuSeqlens, ranks, align);
        }
        FragmentTable.Builder fragments = FragmentTable.Builder.inPackedOrder(ranks);
        int parts = this == CONTIGUOUS ? ranks : 2 * ranks;
        for (int part = 0; part < parts; part++) {
            int begin = packedCut(cuSeqlens, part, parts, align);
            int end = packedCut(cuSeqlens, part + 1, parts, align);
            addPart(cuSeqlens, begin, end, part < ranks ? part : parts - 1 - part, fragments);
        }
        return fragments.build();
    }

    /** Begin of a part of the packed batch; the begin of part {@code parts} is E. */
    private static int packedCut(CuSeqlens cuSeqlens, int part, int parts, int align) {
        if (part == parts) {
            return cuSeqlens.tokens();
        }
        int cut = (int) ((long) part * cuSeqlens.tokens() / parts);
        return cut - cut % align;
    }

    private static void addPart(CuSeqlens cuSeqlens, int begin, int end, int rank, FragmentTable.Builder to) {
        if (begin == end) {
            return;
        }
        for (int d = cuSeqlens.documentOf(begin); d < cuSeqlens.documents() && cuSeqlens.begin(d) < end; d++) {
            int from = Math.max(begin, cuSeqlens.begin(d));
            int until = Math.min(end, cuSeqlens.end(d));
            if (from < until) {
                to.add(rank, d, from - cuSeqlens.begin(d), until - from);
            }
        }
    }
}
