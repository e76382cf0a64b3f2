package dev.kcp.comm;

import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * Carries frames to peers, in order for each peer. No method waits for a peer. None may be called while the mesh's lock
 * is held, since a wire may deliver in the caller's thread.
 */
interface Wire {
    /**
     * Sends a header and its payload. The pieces' memory may be read until {@code flush} is done or
     * {@link #dropPayload} has returned.
     */
    void send(int peer, Frame.Header header, List<MemorySegment> pieces, Flush flush);

    /** Sends a frame without payload. */
    void send(int peer, Frame frame);

    /** Forgets payload that is not yet sent: once this returns, the memory of earlier sends is read no more. */
    void dropPayload();

    /** Ends all connections. */
    void close();
}
