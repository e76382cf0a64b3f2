package dev.kcp.tensor;

import java.lang.foreign.MemorySegment;

/**
 * Host memory by absolute address, for kernels and copies. Nothing here is checked, and a wrong address may end the
 * process: bounds and lifetimes are checked once, where tensors become addresses; a loop then pays for no check per row.
 */
public final class HostMemory {
    /** All of the address space: the offset of an access is the address itself. */
    @SuppressWarnings("restricted")
    public static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private HostMemory() {}

    /** Copies bytes; the two ranges may overlap. */
    public static void copy(long from, long to, long bytes) {
        MemorySegment.copy(ALL, from, ALL, to, bytes);
    }

    /** Fills bytes with zero. */
    public static void zero(long address, long bytes) {
        if (bytes > 0) {
            ALL.asSlice(address, bytes).fill((byte) 0);
        }
    }
}
