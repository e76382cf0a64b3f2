package dev.kcp.conv.cpu;

import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.List;

/** What one worker needs beside its operands. Kept between calls and grown only when too small. */
final class Scratch implements AutoCloseable {
    /** Channels that a kernel call takes at once, so that its FP32 rows stay in the nearest cache. */
    static final int BLOCK_CHANNELS = 128;
    /** Rows of one kernel call: a leaf of 64 and the three rows after it. */
    static final int WINDOW_ROWS = 67;

    final long[] window = new long[WINDOW_ROWS + 3];
    final long[] dy = new long[WINDOW_ROWS];
    final long[] g = new long[WINDOW_ROWS];

    private final Memory rows = Memory.allocateHost((long) WINDOW_ROWS * BLOCK_CHANNELS * Float.BYTES);
    private final List<Memory> sumBlocks = new ArrayList<>();
    private long sumBlockBytes;
    private int sumBlocksTaken;
    private final List<Long> freeSums = new ArrayList<>();

    /** Room for {@link #WINDOW_ROWS} FP32 rows of a block of channels. */
    long rows() {
        return rows.address();
    }

    /** Forgets all sums taken, and makes each block of sums at least this long. */
    void beginSums(long bytes) {
        if (sumBlockBytes < bytes) {
            sumBlocks.forEach(Memory::close);
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
        rows.close();
        sumBlocks.forEach(Memory::close);
        sumBlocks.clear();
        sumBlocksTaken = 0;
    }
}
