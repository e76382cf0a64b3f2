package dev.kcp.tensor;

import static dev.kcp.Arguments.present;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * One block of memory, owned or borrowed. The owner closes it, once or more; a borrowed block is never freed here.
 * Nothing is freed by the garbage collector: a block that was dropped without close stays valid for every view of it.
 */
public final class Memory implements AutoCloseable {
    /** Alignment of every block allocated here, in bytes; a cache line. */
    public static final int ALIGNMENT_BYTES = 64;

    private final Device device;
    private final long address;
    private final long bytes;
    private final Runnable free;
    private volatile boolean closed;

    private Memory(Device device, long address, long bytes, Runnable free) {
        this.device = device;
        this.address = address;
        this.bytes = bytes;
        this.free = free;
    }

    /** Host memory filled with zeros, owned by the caller. */
    public static Memory allocateHost(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("negative allocation: bytes=" + bytes);
        }
        if (bytes == 0) {
            // Closing an arena stops every thread for a moment, and empty buffers come with most calls.
            return new Memory(Device.CPU, ALIGNMENT_BYTES, 0, () -> {});
        }
        Arena arena = Arena.ofShared();
        try {
            long address = arena.allocate(bytes, ALIGNMENT_BYTES).address();
            return new Memory(Device.CPU, address, bytes, arena::close);
        } catch (Throwable failure) {
            arena.close();
            throw failure;
        }
    }

    /**
     * Memory allocated elsewhere in this process and kept alive by its owner for as long as it is used here. That it is
     * there, on that device and so long, only the caller knows.
     *
     * @throws IllegalArgumentException if no memory can lie there
     */
    public static Memory borrow(Device device, long address, long bytes) {
        return own(device, address, bytes, () -> {});
    }

    /** Memory with the given way to free it; for devices other than the CPU. */
    public static Memory own(Device device, long address, long bytes, Runnable free) {
        present("device", device);
        present("free", free);
        if (bytes < 0 || bytes > 0 && (address <= 0 || bytes > Long.MAX_VALUE - address)) {
            throw new IllegalArgumentException(
                    "no memory lies there: address=0x" + Long.toHexString(address) + " bytes=" + bytes);
        }
        return new Memory(device, address, bytes, free);
    }

    /** Where it lies. */
    public Device device() {
        return device;
    }

    /** Its size. */
    public long bytes() {
        return bytes;
    }

    /**
     * The first byte's address.
     *
     * @throws IllegalStateException after close
     */
    public long address() {
        if (closed) {
            throw new IllegalStateException("memory was closed: device=" + device + " bytes=" + bytes);
        }
        return address;
    }

    /**
     * The block as a segment, for host code that reads or fills it.
     *
     * @throws IllegalStateException after close, or on memory that the host cannot read
     */
    public MemorySegment segment() {
        if (device.kind() != Device.Kind.CPU) {
            throw new IllegalStateException("the host cannot read this memory: device=" + device);
        }
        return HostMemory.ALL.asSlice(address(), bytes);
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            free.run();
        }
    }
}
