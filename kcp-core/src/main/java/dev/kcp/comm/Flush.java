package dev.kcp.comm;

import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;

/** Which peers' payload of one call is not yet out of the caller's memory. */
final class Flush {
    private final Set<Integer> unsentPeers = new ConcurrentSkipListSet<>();
    private final Runnable wake;

    /** @param wake called after the last peer is done */
    Flush(Runnable wake) {
        this.wake = wake;
    }

    void queued(int peer) {
        unsentPeers.add(peer);
    }

    void done(int peer) {
        if (unsentPeers.remove(peer) && unsentPeers.isEmpty()) {
            wake.run();
        }
    }

    boolean isDone() {
        return unsentPeers.isEmpty();
    }

    Set<Integer> unsentPeers() {
        return unsentPeers;
    }
}
