package dev.kcp.conv.cuda;

import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.GrowingBuffer;
import dev.kcp.tensor.CloseStack;

/** An engine's work room: grown when a larger batch comes, and kept. Grows never inside a graph capture. */
final class OwnRoom implements WorkRoom {
    private final CudaStream stream;
    private final GrowingBuffer sums;
    /** A row of zeros and, after it, a row of scrap. */
    private final GrowingBuffer rows;

    OwnRoom(CudaStream stream) {
        this.stream = stream;
        sums = new GrowingBuffer(stream);
        rows = new GrowingBuffer(stream);
    }

    /** Grows to what batches up to this size need. */
    void reserve(long batchRows, long channels) {
        sums(WorkRoom.sumBytes(batchRows, channels), channels);
        zeros(channels);
    }

    @Override
    public long sums(long bytes, long channels) {
        return sums.address(bytes);
    }

    @Override
    public long zeros(long channels) {
        long before = rows.bytes();
        long address = rows.address(2 * WorkRoom.rowBytes(channels));
        if (rows.bytes() != before) {
            stream.fill(address, (byte) 0, rows.bytes());
        }
        return address;
    }

    @Override
    public long scrap(long channels) {
        return zeros(channels) + rows.bytes() / 2;
    }

    /** Nothing: the room is kept for the next call. */
    @Override
    public void close() {}

    void free() {
        CloseStack.closeAll(sums, rows);
    }
}
