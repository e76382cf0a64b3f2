package dev.kcp.comm;

/** One round of a call that this rank has begun. Guarded by the mesh's lock. */
final class Step {
    private final long call;
    private final int phase;
    private final Call record;
    private final Sink[] sinks;
    private int missing;
    private boolean open = true;

    /** @param sinks by rank of the group; null where nothing is awaited from that rank */
    Step(long call, int phase, Call record, Sink[] sinks) {
        this.call = call;
        this.phase = phase;
        this.record = record;
        this.sinks = sinks;
        for (Sink sink : sinks) {
            missing += sink == null ? 0 : 1;
        }
    }

    long call() {
        return call;
    }

    int phase() {
        return phase;
    }

    Call record() {
        return record;
    }

    Sink sink(int rank) {
        return sinks[rank];
    }

    void oneComplete() {
        missing--;
    }

    boolean isComplete() {
        return missing == 0;
    }

    boolean isOpen() {
        return open;
    }

    /** From now on the caller's memory is its own again. */
    void close() {
        open = false;
    }

    /** Negative, zero or positive as the header belongs to an earlier, this or a later step. */
    int compareTo(Frame.Header header) {
        int byCall = Long.compare(header.call(), call);
        return byCall != 0 ? byCall : Integer.compare(header.phase(), phase);
    }

    @Override
    public String toString() {
        return "call " + call + " " + record;
    }
}
