package dev.kcp.plan;

import java.util.ArrayList;
import java.util.List;

/** Ranges of tokens as blocks that can be seen: neighbours too narrow for a border become one block. */
final class Blocks {
    private static final double NARROWEST = 3;
    private static final double GAP = 1;

    /**
     * A block to draw.
     *
     * @param count ranges in it
     * @param first the first of them, as its place in the list
     */
    record Block(double left, double right, int count, int first) {
        double width() {
            return right - left;
        }
    }

    private final List<Block> blocks = new ArrayList<>();
    private Block open;

    /** Ends of a list's ranges in pixels, rising. */
    interface Pixels {
        double of(int range);
    }

    static List<Block> of(int ranges, Pixels left, Pixels right) {
        Blocks blocks = new Blocks();
        for (int i = 0; i < ranges; i++) {
            blocks.add(left.of(i), right.of(i), i);
        }
        blocks.flush();
        return blocks.blocks;
    }

    private void add(double left, double right, int range) {
        if (right - left >= NARROWEST) {
            flush();
            blocks.add(new Block(left, right, 1, range));
        } else if (open != null && left - open.right <= GAP) {
            open = new Block(open.left, right, open.count + 1, open.first);
        } else {
            flush();
            open = new Block(left, right, 1, range);
        }
    }

    private void flush() {
        if (open != null) {
            blocks.add(open);
            open = null;
        }
    }
}
