package dev.kcp.conv.cuda;

import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.List;

/**
 * Room in the graph that is being captured, so that replays share none with calls outside it. Given back after the call, it
 * serves the graph's next one.
 */
final class GraphRoom implements WorkRoom {
    private final CudaStream stream;
    private final List<Memory> taken = new ArrayList<>();

    GraphRoom(CudaStream stream) {
        this.stream = stream;
    }

    @Override
    public long sums(long bytes, long channels) {
        return take(bytes);
    }

    /** Cleared in every replay: the memory serves others before. */
    @Override
    public long zeros(long channels) {
        long bytes = WorkRoom.rowBytes(channels);
        long address = take(bytes);
        stream.fill(address, (byte) 0, bytes);
        return address;
    }

    @Override
    public long scrap(long channels) {
        return take(WorkRoom.rowBytes(channels));
    }

    private long take(long bytes) {
        Memory memory = stream.allocate(bytes);
        taken.add(memory);
        return memory.address();
    }

    @Override
    public void close() {
        CloseStack.closeAll(taken);
        taken.clear();
    }
}
