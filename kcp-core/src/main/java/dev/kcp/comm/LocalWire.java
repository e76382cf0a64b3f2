package dev.kcp.comm;

import java.lang.foreign.MemorySegment;
import java.util.List;

/** Carries frames between ranks of one JVM: delivers in the sender's thread, and copies payload before it returns. */
final class LocalWire implements Wire {
    /** A run is copied under the receiver's lock, so it is kept short. */
    private static final long RUN_BYTES = 256 * 1024;

    private final int rank;
    private final List<Mesh> meshes;

    LocalWire(int rank, List<Mesh> meshes) {
        this.rank = rank;
        this.meshes = meshes;
    }

    @Override
    public void send(int peer, Frame.Header header, List<MemorySegment> pieces, Flush flush) {
        Mesh to = meshes.get(peer);
        to.deliver(rank, header);
        for (MemorySegment piece : pieces) {
            for (long at = 0; at < piece.byteSize(); at += RUN_BYTES) {
                to.payload(rank, header.group(), piece.asSlice(at, Math.min(RUN_BYTES, piece.byteSize() - at)));
            }
        }
    }

    @Override
    public void send(int peer, Frame frame) {
        meshes.get(peer).deliver(rank, frame);
    }

    @Override
    public void dropPayload() {
        // Nothing is kept: a send has copied its payload when it returns.
    }

    @Override
    public void close() {
        // No connections.
    }
}
