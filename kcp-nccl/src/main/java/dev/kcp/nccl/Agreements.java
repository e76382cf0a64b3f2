package dev.kcp.nccl;

import dev.kcp.comm.PendingAgreement;
import java.util.ArrayList;
import java.util.List;

/** What was stated and not yet known to be the same on all ranks; replays wait for it, since nothing in a graph can. */
final class Agreements {
    private final List<PendingAgreement> pending = new ArrayList<>();

    synchronized PendingAgreement add(PendingAgreement agreement) {
        pending.add(agreement);
        return agreement;
    }

    private synchronized List<PendingAgreement> take() {
        List<PendingAgreement> all = List.copyOf(pending);
        pending.clear();
        return all;
    }

    /** Returns when all is known; others may state more meanwhile. */
    void await() {
        take().forEach(PendingAgreement::await);
    }
}
