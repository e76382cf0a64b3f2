package dev.kcp.cuda;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Memory;

/**
 * Work space on a device: grown when too small, and kept. A graph may still write to a block that was outgrown, so such a
 * block stays until the end; growing by half at least bounds what these blocks hold. Never grows inside a graph capture.
 */
public final class GrowingBuffer implements AutoCloseable {
    /** Halves of a block start at multiples of 16 bytes. */
    private static final long GRANULE_BYTES = 256;

    private final CudaStream stream;
    private final CloseStack owned = new CloseStack();
    private Memory block;

    /** An empty one on a borrowed stream. */
    public GrowingBuffer(CudaStream stream) {
        this.stream = stream;
        block = owned.push(stream.allocate(0));
    }

    /** Its size now. */
    public long bytes() {
        return block.bytes();
    }

    /**
     * The address of at least so many bytes; what stood there is lost when it grows.
     *
     * @throws IllegalStateException if it would have to grow while the stream is captured
     */
    public long address(long bytes) {
        if (block.bytes() < bytes) {
            if (stream.isCapturing()) {
                throw new IllegalStateException("work space cannot grow inside a graph capture: make it before, by an"
                        + " engine's prepare(rows, channels) or an uncaptured run, or give it to the call: bytes="
                        + block.bytes() + " wanted=" + bytes);
            }
            long grown = Math.max(bytes, block.bytes() + block.bytes() / 2);
            block = owned.push(stream.allocate((grown + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES));
        }
        return block.address();
    }

    @Override
    public void close() {
        owned.close();
    }
}
