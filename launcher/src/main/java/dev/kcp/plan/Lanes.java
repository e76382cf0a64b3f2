package dev.kcp.plan;

import java.util.Arrays;

/** Where the picture shows which rank: a lane per rank, or per few ranks where they are too many. */
final class Lanes {
    /** Up to so many ranks have lanes high enough for text. */
    static final int ROOMY = 10;

    private static final int MOST = 48;

    private static final String[] FILLS = {
        "#b6e3ff", "#fae17d", "#aceebb", "#ffcecb", "#d8b9ff", "#ffc680", "#9be9e9", "#d0d7de"
    };

    private final int[] ranks;
    private final double top;
    private final int ranksPerLane;

    /**
     * @param ranks those to show, rising
     * @param top of the first lane, in pixels
     */
    Lanes(int[] ranks, double top) {
        this.ranks = ranks;
        this.top = top;
        ranksPerLane = Math.max(1, (ranks.length + MOST - 1) / MOST);
    }

    int count() {
        return (ranks.length + ranksPerLane - 1) / ranksPerLane;
    }

    boolean isRoomy() {
        return ranks.length <= ROOMY;
    }

    /** The lane of a rank that is shown. */
    int of(int rank) {
        return Arrays.binarySearch(ranks, rank) / ranksPerLane;
    }

    double height() {
        return isRoomy() ? 26 : 9;
    }

    double y(int lane) {
        return top + lane * (isRoomy() ? 44 : 13);
    }

    double bottom() {
        return y(count() - 1) + height();
    }

    /** A lane's name, or empty for a lane between two named ones. */
    String label(int lane) {
        int every = isRoomy() ? 1 : count() > 24 ? 4 : 2;
        if (lane % every != 0) {
            return "";
        }
        int first = lane * ranksPerLane;
        int last = Math.min(ranks.length, first + ranksPerLane) - 1;
        return first == last ? "rank " + ranks[first] : ranks[first] + " to " + ranks[last];
    }

    /** A light colour; a rank's own where few are shown, and neighbours always differ. */
    String fill(int rank) {
        return FILLS[(ranksPerLane == 1 ? rank : of(rank)) % FILLS.length];
    }
}
