package dev.kcp.conv.cuda;

import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.Memory;

/**
 * A caller's work space for one call on a batch: a row of zeros, a row of scrap, then the sums. Nothing in it outlives the
 * call, so the zeros are written by each call that reads them.
 */
record CallerRoom(CudaStream stream, Memory memory) implements WorkRoom {
    static long bytes(long batchRows, long channels) {
        return batchRows == 0
                ? 0
                : Math.addExact(2 * WorkRoom.rowBytes(channels), WorkRoom.sumBytes(batchRows, channels));
    }

    @Override
    public long sums(long bytes, long channels) {
        return memory.address() + 2 * WorkRoom.rowBytes(channels);
    }

    @Override
    public long zeros(long channels) {
        stream.fill(memory.address(), (byte) 0, WorkRoom.rowBytes(channels));
        return memory.address();
    }

    @Override
    public long scrap(long channels) {
        return memory.address() + WorkRoom.rowBytes(channels);
    }

    /** Nothing: the memory is the caller's. */
    @Override
    public void close() {}
}
