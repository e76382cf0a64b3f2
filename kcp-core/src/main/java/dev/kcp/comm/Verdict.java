package dev.kcp.comm;

import java.util.BitSet;
import java.util.TreeSet;

/**
 * How ranks come to one reason for a failure. Each rank tells all peers the first failure that it knew, its own or the
 * first it was told, and picks the root cause among those of all living ranks: all pick from the same set. Guarded by
 * the mesh's lock.
 */
final class Verdict {
    private final TreeSet<Failure> candidates = new TreeSet<>(Failure.ROOT_CAUSE_FIRST);
    private final BitSet heard = new BitSet();
    private Failure own;
    private Failure settled;

    /** This rank's first failure, or null while there is none. */
    Failure own() {
        return own;
    }

    /** Takes this rank's own first failure. */
    void enter(int rank, Failure failure) {
        own = failure;
        hear(rank, failure);
    }

    /** Takes the first failure that a peer knew. */
    void hear(int peer, Failure failure) {
        candidates.add(failure);
        heard.set(peer);
    }

    /** Settles if every living rank was heard; true if it is settled now. */
    boolean settle(BitSet living) {
        BitSet silent = (BitSet) living.clone();
        silent.andNot(heard);
        if (own != null && silent.isEmpty()) {
            settleNow(own);
        }
        return isSettled();
    }

    /** Settles among what was heard, which may be nothing on a rank that is leaving. */
    Failure settleNow(Failure otherwise) {
        if (settled == null) {
            settled = candidates.isEmpty() ? otherwise : candidates.first();
        }
        return settled;
    }

    /** Those of the peers that said why the group failed. */
    BitSet amongHeard(BitSet peers) {
        BitSet among = (BitSet) peers.clone();
        among.and(heard);
        return among;
    }

    boolean isSettled() {
        return settled != null;
    }
}
