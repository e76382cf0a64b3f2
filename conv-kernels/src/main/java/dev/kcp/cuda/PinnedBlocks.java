package dev.kcp.cuda;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.List;

/** Page-locked host memory for copies that the host does not wait for. Blocks are kept for the next taker. */
public final class PinnedBlocks implements AutoCloseable {
    private static final long GRANULE_BYTES = 1 << 16;

    /** One block and the event after its last copy. */
    public final class Block implements AutoCloseable {
        private final Memory memory;
        private final CudaEvent copied;

        private Block(long bytes) {
            memory = device.allocatePinned(bytes);
            copied = new CudaEvent(device);
        }

        public long address() {
            return memory.address();
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

        /** Frees it; for the owner of all blocks. */
        @Override
        public void close() {
            CloseStack.closeAll(memory, copied);
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
            if (block.memory.bytes() >= bytes && block.copied.isReached()) {
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
        CloseStack.closeAll(all);
        all.clear();
        free.clear();
    }
}
