package dev.kcp.train;

import dev.kcp.core.Partition;

/** Layouts as they are named on the command line. */
final class LayoutNames {
    private LayoutNames() {}

    static String nameOf(Partition.Layout layout) {
        return switch (layout) {
            case CONTIGUOUS -> "contiguous";
            case ZIGZAG -> "zigzag";
            case ZIGZAG_PER_DOCUMENT -> "zigzagPerDocument";
        };
    }
}
