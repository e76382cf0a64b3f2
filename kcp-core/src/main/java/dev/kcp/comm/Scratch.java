package dev.kcp.comm;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Native memory that is kept between calls, and grown only when it is too small. */
final class Scratch implements AutoCloseable {
    private static final long ALIGN_BYTES = 64;

    private Arena arena;
    private MemorySegment memory = MemorySegment.NULL;

    MemorySegment ofBytes(long bytes) {
        if (bytes > memory.byteSize()) {
            close();
            // Shared, since another thread than the user's may close the communicator.
            arena = Arena.ofShared();
            memory = arena.allocate(bytes, ALIGN_BYTES);
        }
        return memory.asSlice(0, bytes);
    }

    @Override
    public void close() {
        if (arena != null) {
            arena.close();
            arena = null;
            memory = MemorySegment.NULL;
        }
    }
}
