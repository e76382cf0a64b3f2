package dev.kcp.comm;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Queue;

/** A peer's header and the payload that came with it so far. Guarded by the mesh's lock. */
final class Message {
    private final Frame.Header header;
    private final Queue<byte[]> early = new ArrayDeque<>();
    private long receivedBytes;
    private Step step;
    private Sink sink;

    Message(Frame.Header header) {
        this.header = header;
    }

    Frame.Header header() {
        return header;
    }

    /** Gives the payload a place: what came early is copied now, the rest as it comes. */
    void attach(Step step, Sink sink) {
        this.step = step;
        this.sink = sink;
        sink.begin(header.bytes());
        while (!early.isEmpty()) {
            sink.put(MemorySegment.ofArray(early.remove()));
        }
        finishIfComplete();
    }

    /** Takes a run of payload; memory is touched only while the call that owns it is under way. */
    void accept(MemorySegment run) {
        receivedBytes += run.byteSize();
        if (receivedBytes > header.bytes()) {
            throw new IllegalStateException("more payload than announced: bytes=" + header.bytes() + " received="
                    + receivedBytes + " call=" + header.call());
        }
        if (step == null) {
            byte[] copy = new byte[(int) run.byteSize()];
            MemorySegment.copy(run, 0, MemorySegment.ofArray(copy), 0, copy.length);
            early.add(copy);
        } else if (step.isOpen()) {
            sink.put(run);
            finishIfComplete();
        }
    }

    private void finishIfComplete() {
        if (receivedBytes == header.bytes() && !sink.isComplete()) {
            sink.complete();
            step.oneComplete();
        }
    }
}
