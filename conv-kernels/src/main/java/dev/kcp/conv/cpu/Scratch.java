package dev.kcp.conv.cpu;

import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.List;

/** What one worker needs beside its operands. Kept between calls and grown only when too small. */
final class Scratch implements AutoCloseable {
    /** Rows of one kernel call: a leaf of 64 and the three rows after it. */
    static final int WINDOW_ROWS = 67;

    final long[] window = new long[WINDOW_ROWS + 3];
    final long[] dy = new long[WINDOW_ROWS];
    final long[] g = new long[WINDOW_ROWS];

    private Memory gRows = Memory.allocateHost(0);
    private final List<Memory> sumBlocks = new ArrayList<>();
    private long sumBlockBytes;
    private int sumBlocksTaken;
    private final List<Long> freeSums = new ArrayList<>();

    /** Room for {@link #WINDOW_ROWS} rows of g of a block of channels. */
    long gRows(int channels) {
        long bytes = (long) WINDOW_ROWS * channels * Float.BYTES;
        if (gRows.bytes() < bytes) {
            gRows.close();
            gRows = Memory.allocateHost(bytes);
        }
        return gRows.address();
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
        gRows.close();
        sumBlocks.forEach(Memory::close);
        sumBlocks.clear();
        sumBlocksTaken = 0;
    }
}
