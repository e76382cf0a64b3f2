package dev.kcp.conv.cpu;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.List;

/** What one worker needs beside its operands. Kept between calls and grown only when too small. */
final class Scratch implements AutoCloseable {
    /**
     * Channels that a kernel call takes at once. Long runs of each row suit the memory's prefetchers; with
     * {@link #TILE_ROWS} rows they still lie in the second-level cache.
     */
    static final int BLOCK_CHANNELS = 1024;
    /** Rows of one kernel call. */
    static final int TILE_ROWS = 8;
    /** Rows of the ring that holds a tile and the three rows before it, wherever it wraps. */
    private static final int RING_ROWS = 2 * TILE_ROWS + 8;

    /** Addresses of a tile's input rows and the three before them. */
    final long[] window = new long[TILE_ROWS + 3];
    /** Addresses of a tile's rows of dy. */
    final long[] dy = new long[TILE_ROWS];

    private final boolean vectors;
    private final Memory ring = Memory.allocateHost((long) RING_ROWS * BLOCK_CHANNELS * Float.BYTES);
    private int ringRow;
    private final List<Memory> sumBlocks = new ArrayList<>();
    private long sumBlockBytes;
    private int sumBlocksTaken;
    private final List<Long> freeSums = new ArrayList<>();

    Scratch(boolean vectors) {
        this.vectors = vectors;
    }

    /** Leading channels of a block that kernels take as vectors. */
    int whole(int channels) {
        return vectors ? Lanes.whole(channels) : 0;
    }

    /** The next {@code rows} FP32 rows of a block; the three rows taken before stay as they are. */
    long takeRows(int rows, long pitchBytes) {
        if (ringRow + rows > RING_ROWS) {
            ringRow = 0;
        }
        long address = ring.address() + ringRow * pitchBytes;
        ringRow += rows;
        return address;
    }

    /** Forgets all sums taken, and makes each block of sums at least this long. */
    void beginSums(long bytes) {
        if (sumBlockBytes < bytes) {
            CloseStack.closeAll(sumBlocks);
            sumBlocks.clear();
            sumBlockBytes = bytes;
        }
        sumBlocksTaken = 0;
        freeSums.clear();
    }

    /** A block of sums, zeroed: +0 in every plane. */
    long takeSums() {
        long block;
        if (!freeSums.isEmpty()) {
            block = freeSums.removeLast();
        } else {
            if (sumBlocksTaken == sumBlocks.size()) {
                sumBlocks.add(Memory.allocateHost(sumBlockBytes));
            }
            block = sumBlocks.get(sumBlocksTaken++).address();
        }
        HostMemory.zero(block, sumBlockBytes);
        return block;
    }

    void giveSums(long block) {
        freeSums.add(block);
    }

    @Override
    public void close() {
        CloseStack.closeAll(sumBlocks);
        sumBlocks.clear();
        ring.close();
        sumBlocksTaken = 0;
    }
}
