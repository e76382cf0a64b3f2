package dev.kcp.comm;

import java.lang.foreign.MemorySegment;
import java.util.List;

/** Where one peer's payload of one call goes. Guarded by the mesh's lock. */
final class Sink {
    private static final long ANY = -1;

    private final long expectedBytes;
    private List<MemorySegment> segments;
    private int segment;
    private long offset;
    private boolean complete;
    private byte[] collected;

    private Sink(long expectedBytes, List<MemorySegment> segments) {
        this.expectedBytes = expectedBytes;
        this.segments = segments;
    }

    /** Fills the segments in order; the peer must send just their bytes. */
    static Sink into(List<MemorySegment> segments) {
        return new Sink(segments.stream().mapToLong(MemorySegment::byteSize).sum(), segments);
    }

    /** Takes whatever length the peer sends, none included. */
    static Sink collecting() {
        return new Sink(ANY, List.of());
    }

    boolean accepts(long bytes) {
        return expectedBytes == ANY ? bytes <= Integer.MAX_VALUE - 8 : bytes == expectedBytes;
    }

    long expectedBytes() {
        return expectedBytes;
    }

    /** Tells the length that the peer's header gave. */
    void begin(long bytes) {
        if (expectedBytes == ANY) {
            collected = new byte[(int) bytes];
            segments = List.of(MemorySegment.ofArray(collected));
        }
    }

    void put(MemorySegment run) {
        long done = 0;
        while (done < run.byteSize()) {
            MemorySegment target = segments.get(segment);
            long bytes = Math.min(run.byteSize() - done, target.byteSize() - offset);
            MemorySegment.copy(run, done, target, offset, bytes);
            done += bytes;
            offset += bytes;
            if (offset == target.byteSize()) {
                segment++;
                offset = 0;
            }
        }
    }

    void complete() {
        complete = true;
    }

    boolean isComplete() {
        return complete;
    }

    byte[] collected() {
        return collected;
    }
}
