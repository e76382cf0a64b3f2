package dev.kcp.train.cpu;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.Tiles;
import java.util.ArrayList;
import java.util.List;

/** Walks the tree of {@link Tiles}: makes each tile's sums and adds them, with one buffer for each level of the tree. */
final class TileSums implements AutoCloseable {
    /** Writes one tile's sums. */
    @FunctionalInterface
    interface Program {
        /** @param sums FP32 elements, overwritten */
        void run(int tile, long sums);
    }

    private final List<Memory> levels = new ArrayList<>();

    /**
     * Fills the nodes' sums.
     *
     * @param sums FP32 {@code [nodes, elements]}, elements a multiple of 8
     */
    void fill(Tiles tiles, Tensor sums, Program program) {
        for (int i = 0; i < tiles.nodes().size(); i++) {
            Tiles.Node node = tiles.nodes().get(i);
            if (node.tileBegin() == node.tileEnd()) {
                HostMemory.zero(sums.rowAddress(i), sums.columns() * Float.BYTES);
            } else {
                sum(node.tileBegin(), node.tileEnd(), sums.rowAddress(i), sums.columns(), program);
            }
        }
    }

    private void sum(int begin, int end, long to, long elements, Program program) {
        int count = end - begin;
        if (count == 1) {
            program.run(begin, to);
            return;
        }
        int left = Integer.highestOneBit(count - 1);
        sum(begin, begin + left, to, elements, program);
        long right = level(Integer.numberOfTrailingZeros(left), elements * Float.BYTES);
        sum(begin + left, end, right, elements, program);
        add(to, right, elements);
    }

    /** {@code left += right}; elements a multiple of 8. */
    static void add(long left, long right, long elements) {
        for (long i = 0; i < elements * Float.BYTES; i += Lanes.BYTES) {
            Lanes.store(Lanes.load(left + i).add(Lanes.load(right + i)), left + i);
        }
    }

    private long level(int level, long bytes) {
        while (levels.size() <= level) {
            levels.add(Memory.allocateHost(0));
        }
        if (levels.get(level).bytes() < bytes) {
            levels.get(level).close();
            levels.set(level, Memory.allocateHost(bytes));
        }
        return levels.get(level).address();
    }

    @Override
    public void close() {
        CloseStack.closeAll(levels);
        levels.clear();
    }
}
