package dev.kcp.comm;

import java.util.BitSet;

/** Which peers have left the mesh, and which know that this rank leaves. Guarded by the mesh's lock. */
final class Departures {
    private final int rank;
    private final int size;
    private final BitSet saidBye = new BitSet();
    private final BitSet sawOurBye = new BitSet();
    private final BitSet gone = new BitSet();

    Departures(int rank, int size) {
        this.rank = rank;
        this.size = size;
    }

    /** A peer says goodbye; its connection stays until it ends it. */
    void saysBye(int peer) {
        saidBye.set(peer);
    }

    /** A peer has read this rank's goodbye. */
    void seesOurBye(int peer) {
        sawOurBye.set(peer);
    }

    /** A peer's connection ended. */
    void isGone(int peer) {
        gone.set(peer);
    }

    boolean hasSaidBye(int peer) {
        return saidBye.get(peer);
    }

    /** Peers that said goodbye. */
    BitSet leaving() {
        return (BitSet) saidBye.clone();
    }

    /** Ranks that take part, this one among them: still connected, and without a goodbye. */
    BitSet living() {
        BitSet living = connected();
        living.set(rank);
        living.andNot(saidBye);
        return living;
    }

    /** Peers that a goodbye reaches. */
    BitSet connected() {
        BitSet connected = new BitSet();
        connected.set(0, size);
        connected.andNot(gone);
        connected.clear(rank);
        return connected;
    }

    /** Whether each of the peers has read this rank's goodbye, or is gone. */
    boolean haveSeenOurBye(BitSet peers) {
        BitSet waiting = (BitSet) peers.clone();
        waiting.andNot(sawOurBye);
        waiting.andNot(gone);
        return waiting.isEmpty();
    }
}
