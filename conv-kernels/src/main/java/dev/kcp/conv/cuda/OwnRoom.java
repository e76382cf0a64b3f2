package dev.kcp.conv.cuda;

import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.List;

/** An engine's work room: grown when a larger batch comes, and kept. Grows never inside a graph capture. */
final class OwnRoom implements WorkRoom {
    /** Halves of a block start at multiples of 16 bytes. */
    private static final long GRANULE_BYTES = 256;

    private final CudaStream stream;
    private final List<Memory> retired = new ArrayList<>();
    private Memory sums;
    /** A row of zeros and, after it, a row of scrap. */
    private Memory rows;

    OwnRoom(CudaStream stream) {
        this.stream = stream;
        sums = stream.allocate(0);
        rows = stream.allocate(0);
    }

    /** Grows to what batches up to this size need. */
    void reserve(long batchRows, long channels) {
        sums(WorkRoom.sumBytes(batchRows, channels), channels);
        zeros(channels);
    }

    @Override
    public long sums(long bytes, long channels) {
        sums = atLeast(sums, bytes);
        return sums.address();
    }

    @Override
    public long zeros(long channels) {
        long bytes = 2 * WorkRoom.rowBytes(channels);
        if (rows.bytes() < bytes) {
            rows = atLeast(rows, bytes);
            stream.fill(rows.address(), (byte) 0, rows.bytes());
        }
        return rows.address();
    }

    @Override
    public long scrap(long channels) {
        return zeros(channels) + rows.bytes() / 2;
    }

    private Memory atLeast(Memory memory, long bytes) {
        if (memory.bytes() >= bytes) {
            return memory;
        }
        if (stream.isCapturing()) {
            throw new IllegalStateException("work space must be made before a graph capture, by prepare(rows, channels)"
                    + " or by the caller: bytes=" + memory.bytes() + " wanted=" + bytes);
        }
        // A captured graph may still write to the smaller block; growing by half at least bounds what such blocks hold.
        retired.add(memory);
        long grown = Math.max(bytes, memory.bytes() + memory.bytes() / 2);
        return stream.allocate((grown + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES);
    }

    /** Nothing: the room is kept for the next call. */
    @Override
    public void close() {}

    void free() {
        retired.forEach(Memory::close);
        sums.close();
        rows.close();
    }
}
