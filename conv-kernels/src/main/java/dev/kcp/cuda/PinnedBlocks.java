package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import java.util.ArrayList;
import java.util.List;
import jcuda.Pointer;
import jcuda.driver.JCudaDriver;

/** Page-locked host memory for copies that the host does not wait for. Blocks are kept for the next taker. */
public final class PinnedBlocks implements AutoCloseable {
    private static final long GRANULE_BYTES = 1 << 16;

    /** One block and the event after its last copy. */
    public final class Block {
        private final Pointer pointer = new Pointer();
        private final long bytes;
        private final CudaEvent copied;

        private Block(long bytes) {
            this.bytes = bytes;
            check("cuMemHostAlloc", JCudaDriver.cuMemHostAlloc(pointer, bytes, 0));
            copied = new CudaEvent(device);
        }

        public long address() {
            return Handles.addressOf(pointer);
        }

        /** Marks the copy that was put on the stream. */
        public void use(CudaStream stream) {
            copied.record(stream);
        }

        public void giveBack() {
            synchronized (PinnedBlocks.this) {
                free.add(this);
            }
        }
    }

    private final CudaDevice device;
    private final List<Block> free = new ArrayList<>();
    private final List<Block> all = new ArrayList<>();

    public PinnedBlocks(CudaDevice device) {
        this.device = device;
    }

    /** A block of at least this many bytes whose last copy is done. */
    public synchronized Block take(long bytes) {
        device.makeCurrent();
        for (Block block : free) {
            if (block.bytes >= bytes && block.copied.isReached()) {
                free.remove(block);
                return block;
            }
        }
        Block made = new Block((bytes / GRANULE_BYTES + 1) * GRANULE_BYTES);
        all.add(made);
        return made;
    }

    @Override
    public synchronized void close() {
        device.makeCurrent();
        for (Block block : all) {
            block.copied.close();
            check("cuMemFreeHost", JCudaDriver.cuMemFreeHost(block.pointer));
        }
        all.clear();
        free.clear();
    }
}
