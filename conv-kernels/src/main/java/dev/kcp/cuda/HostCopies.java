package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.tensor.HostMemory;
import java.lang.foreign.MemorySegment;
import jcuda.driver.JCudaDriver;

/**
 * Copies between any host memory, arrays among it, and a stream's device, through page-locked blocks that are kept. Borrows
 * the stream; never used while it is captured.
 */
public final class HostCopies implements AutoCloseable {
    private final CudaStream stream;
    private final PinnedBlocks pinned;

    /** @param stream in whose order copies run; borrowed */
    public HostCopies(CudaStream stream) {
        this.stream = stream;
        pinned = new PinnedBlocks(stream.device());
    }

    /**
     * Queues a copy to the device; the host does not wait for it.
     *
     * @param from may be reused at return
     */
    public void write(MemorySegment from, long to) {
        long bytes = from.byteSize();
        if (bytes == 0) {
            return;
        }
        PinnedBlocks.Block block = pinned.take(bytes);
        MemorySegment.copy(from, 0, HostMemory.ALL, block.address(), bytes);
        stream.copyToDevice(block.address(), to, bytes);
        block.use(stream);
        block.giveBack();
    }

    /**
     * Copies to the host, after all that is on the stream; in between the host waits.
     *
     * @param wait returns once the stream is done
     */
    public void read(long from, MemorySegment to, Runnable wait) {
        long bytes = to.byteSize();
        if (bytes == 0) {
            wait.run();
            return;
        }
        PinnedBlocks.Block block = pinned.take(bytes);
        stream.device().makeCurrent();
        check(
                "cuMemcpyDtoHAsync",
                JCudaDriver.cuMemcpyDtoHAsync(
                        Handles.host(block.address()), Handles.device(from), bytes, stream.jcuda()));
        block.use(stream);
        try {
            wait.run();
            MemorySegment.copy(HostMemory.ALL, block.address(), to, 0, bytes);
        } finally {
            block.giveBack();
        }
    }

    @Override
    public void close() {
        pinned.close();
    }
}
