package dev.kcp.comm;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.TreeSet;

/** One phase of a call under way: its sends, and the sinks of its step. */
final class Round {
    private final GroupWaits waits;
    private final Mesh mesh;
    private final GroupState state;
    private final Step step;
    private final List<List<MemorySegment>> outgoing;
    private final boolean lastPhase;
    private final Flush flush;
    private final TreeSet<Integer> receivers = new TreeSet<>();
    private CallRecorder.Entry recorded;
    private CommunicatorStats.Counter counter;
    private boolean done;

    /** @param outgoing pieces for each rank of the group */
    Round(GroupWaits waits, Step step, List<List<MemorySegment>> outgoing, boolean lastPhase) {
        this.waits = waits;
        this.mesh = waits.mesh();
        this.state = waits.state();
        this.step = step;
        this.outgoing = outgoing;
        this.lastPhase = lastPhase;
        this.flush = new Flush(mesh::wake);
    }

    /** Compares what came early, then sends: the record to every peer of the group, payload to whom it concerns. */
    void start(int[] worldRanks, int rank, CommunicatorStats.Counter count, CallRecorder.Entry entry) {
        recorded = entry;
        counter = count;
        Failure failure = mesh.locked(() -> state.begin(step));
        if (failure != null) {
            end();
            throw mesh.failed(failure);
        }
        // Each rank starts with its successor, so that not all of them knock at rank 0 first.
        for (int i = 1; i < worldRanks.length; i++) {
            int peer = (rank + i) % worldRanks.length;
            List<MemorySegment> pieces = outgoing.get(peer);
            long bytes = pieces.stream().mapToLong(MemorySegment::byteSize).sum();
            if (bytes > 0) {
                receivers.add(worldRanks[peer]);
            } else if (step.phase() > 0) {
                continue;
            }
            Frame.Header header = new Frame.Header(state.name(), step.call(), step.phase(), step.record(), bytes);
            mesh.wire().send(worldRanks[peer], header, pieces, flush);
            counter.sent(step.record().kind(), bytes);
            recorded.sent(worldRanks[peer], bytes);
            if (step.sink(peer) != null) {
                recorded.awaits(worldRanks[peer]);
            }
        }
    }

    void await() {
        WaitEvent event = new WaitEvent();
        event.begin();
        long begin = System.nanoTime();
        try {
            mesh.await(
                    () -> step.isComplete() && flush.isDone(),
                    () -> waits.leftEarly(needed(), step.call(), step.record()),
                    Deadline.in(mesh.deadline()),
                    () -> waits.overdue(step.call(), step.record(), stillAwaited()));
            if (lastPhase) {
                recorded.finish();
            }
        } finally {
            counter.waited(System.nanoTime() - begin);
            if (event.shouldCommit()) {
                event.call = step.call();
                event.label = step.record().label();
                event.commit();
            }
            end();
        }
    }

    /** Peers that must still be there: those that owe payload, and those that get some. */
    private TreeSet<Integer> needed() {
        TreeSet<Integer> needed = new TreeSet<>(state.awaited());
        needed.addAll(receivers);
        return needed;
    }

    private TreeSet<Integer> stillAwaited() {
        TreeSet<Integer> awaited = new TreeSet<>(state.awaited());
        awaited.addAll(flush.unsentPeers());
        return awaited;
    }

    private void end() {
        mesh.locked(() -> {
            state.end(lastPhase);
            return null;
        });
        done = true;
    }

    boolean isDone() {
        return done;
    }

    @Override
    public String toString() {
        return step.toString();
    }
}
