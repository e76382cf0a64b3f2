package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One rank's end of its connections to all ranks: the groups whose frames they carry, and what threads wait for. A failure
 * of any group ends all of them, see {@link MeshEnd}; with the last group that is closed here the mesh ends, in order.
 */
final class Mesh {
    private static final Duration CLOSE_AFTER_FAILURE = Duration.ofSeconds(2);
    /** For a goodbye to a rank that kept silent while the others agreed on why the group failed. */
    private static final Duration CLOSE_WITH_SILENT = Duration.ofMillis(300);

    private final int rank;
    private final int size;
    private final String transport;
    private final Duration deadline;
    private final Monitor monitor = new Monitor();
    private final Map<String, GroupState> groups = new HashMap<>();
    private final Departures departures;
    private final CallRecorder recorder;
    private final MeshEnd end;
    private Wire wire;
    private int openGroups;
    private int headerWaiters;

    Mesh(int rank, int size, String transport, Duration deadline) {
        this.rank = rank;
        this.size = size;
        this.transport = transport;
        this.deadline = Deadline.check(deadline);
        this.departures = new Departures(rank, size);
        this.recorder = new CallRecorder(rank, size, transport);
        this.end = new MeshEnd(rank, monitor, departures, recorder);
    }

    /** Connects the mesh, once, before its first use. */
    void attach(Wire wire) {
        this.wire = wire;
        end.attach(wire);
    }

    int rank() {
        return rank;
    }

    int size() {
        return size;
    }

    String transport() {
        return transport;
    }

    Duration deadline() {
        return deadline;
    }

    CallRecorder recorder() {
        return recorder;
    }

    Wire wire() {
        return wire;
    }

    /** Opens a group of world ranks; this rank is one of them. */
    GroupCommunicator open(String name, int[] worldRanks) {
        GroupState state = locked(() -> {
            GroupState known = group(name);
            known.register(worldRanks);
            departures.leaving().stream().forEach(known::left);
            openGroups++;
            return known;
        });
        return new GroupCommunicator(this, state, worldRanks);
    }

    private GroupState group(String name) {
        return groups.computeIfAbsent(name, n -> new GroupState(n, rank));
    }

    <T> T locked(Supplier<T> body) {
        return monitor.locked(body);
    }

    /** Wakes the threads that wait, so that they look again. */
    void wake() {
        monitor.wake();
    }

    /**
     * Waits, with the lock held in all three questions.
     *
     * @param obstacle why waiting is in vain, or null
     * @param overdue the failure if the deadline passes
     */
    void await(BooleanSupplier done, Supplier<Failure> obstacle, Deadline until, Supplier<Failure> overdue) {
        await(done, obstacle, until, overdue, Long.MAX_VALUE);
    }

    /** As the shorter form, for an obstacle that time brings about: it is asked for at least this often. */
    void await(
            BooleanSupplier done,
            Supplier<Failure> obstacle,
            Deadline until,
            Supplier<Failure> overdue,
            long lookAgainNanos) {
        Failure found;
        monitor.lock();
        try {
            while (true) {
                found = end.failure() == null ? obstacle.get() : end.failure();
                if (found != null) {
                    break;
                }
                if (done.getAsBoolean()) {
                    return;
                }
                long nanos = until.remainingNanos();
                if (nanos <= 0) {
                    found = overdue.get();
                    break;
                }
                monitor.awaitNanos(Math.min(nanos, lookAgainNanos));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            found = new Failure(Code.RANK_FAILED, rank, -1, "rank " + rank + " was interrupted while it waited");
        } finally {
            monitor.unlock();
        }
        throw end.failed(found);
    }

    /** As {@link #await}, for something that a record alone, without payload, may bring about. */
    void awaitRecords(BooleanSupplier done, Supplier<Failure> obstacle, Deadline until, Supplier<Failure> overdue) {
        locked(() -> headerWaiters++);
        try {
            await(done, obstacle, until, overdue);
        } finally {
            locked(() -> headerWaiters--);
        }
    }

    /** Why the groups ended, as all ranks agreed, or null where they did not. */
    Failure failure() {
        return end.agreed();
    }

    /** Throws if the groups have ended. */
    void checkAlive() {
        end.checkAlive();
    }

    /** Ends the groups if they have not ended, and gives what to throw: the same on every rank. */
    KcpException failed(Failure failure) {
        return end.failed(failure);
    }

    /** Ends the groups without waiting; only the first reason counts. */
    void fail(Failure failure) {
        end.fail(failure);
    }

    /** Tells a listener of the failure that ends the groups, once; at once if there is one. */
    void onFailure(Consumer<KcpException> listener) {
        end.onFailure(listener);
    }

    /** Takes a frame without payload from a peer; called by the wire. */
    void deliver(int peer, Frame frame) {
        switch (frame) {
            case Frame.Header header -> header(peer, header);
            case Frame.Abort abort -> end.hear(peer, abort.failure());
            case Frame.Statement statement -> stated(peer, statement);
            case Frame.Leave leave -> left(peer, leave.group());
            case Frame.Bye _ -> bye(peer);
            case Frame.ByeSeen _ -> byeSeen(peer);
        }
    }

    private void header(int peer, Frame.Header header) {
        Failure failure = locked(() -> {
            if (end.isOver()) {
                return null;
            }
            GroupState state = group(header.group());
            Failure wrong = state.header(peer, header);
            if (headerWaiters > 0 || state.isStepComplete()) {
                monitor.wake();
            }
            return wrong;
        });
        if (failure != null) {
            fail(failure);
        }
    }

    private void stated(int peer, Frame.Statement statement) {
        Failure failure = locked(() -> {
            if (end.isOver()) {
                return null;
            }
            GroupState state = group(statement.group());
            state.statements().hear(peer, statement.number(), statement.text());
            monitor.wake();
            return state.differenceIn(statement.number());
        });
        // At once, not when this rank comes to wait for it: it may be inside a call that others will not make.
        if (failure != null) {
            fail(failure);
        }
    }

    /** Takes a run of payload that follows the peer's last header in the group; copies it before it returns. */
    void payload(int peer, String group, MemorySegment run) {
        monitor.locked(() -> {
            if (end.isOver()) {
                return;
            }
            GroupState state = group(group);
            state.payload(peer, run);
            if (state.isStepComplete()) {
                monitor.wake();
            }
        });
    }

    private void left(int peer, String name) {
        monitor.locked(() -> {
            GroupState state = group(name);
            state.left(peer);
            forgetIfOver(state);
            monitor.wake();
        });
    }

    private void forgetIfOver(GroupState state) {
        if (state.isOver()) {
            groups.remove(state.name());
        }
    }

    private void bye(int peer) {
        monitor.locked(() -> {
            departures.saysBye(peer);
            groups.values().forEach(state -> state.left(peer));
            end.settleIfAllHeard();
            monitor.wake();
        });
        wire.send(peer, new Frame.ByeSeen());
    }

    private void byeSeen(int peer) {
        monitor.locked(() -> {
            departures.seesOurBye(peer);
            monitor.wake();
        });
    }

    /** A connection ended. Orderly if the peer had said goodbye; otherwise the peer is gone, and with it the group. */
    void lost(int peer, String how) {
        boolean orderly = locked(() -> {
            departures.isGone(peer);
            end.settleIfAllHeard();
            monitor.wake();
            return departures.hasSaidBye(peer);
        });
        if (!orderly) {
            fail(new Failure(Code.RANK_FAILED, peer, -1, "rank " + peer + " is gone (" + how + ")"));
        }
    }

    /** Closes a group; with the last one the mesh says goodbye and ends its connections. */
    void close(GroupState state, int[] worldRanks) {
        boolean last = locked(() -> {
            state.close();
            forgetIfOver(state);
            return --openGroups == 0;
        });
        Frame leave = new Frame.Leave(state.name());
        for (int peer : worldRanks) {
            if (peer != rank) {
                wire.send(peer, leave);
            }
        }
        if (last) {
            recorder.closed();
            sayGoodbye();
        }
    }

    private void sayGoodbye() {
        BitSet peers = locked(() -> {
            end.leave();
            return departures.connected();
        });
        peers.stream().forEach(peer -> wire.send(peer, new Frame.Bye()));
        Duration limit = locked(end::failure) == null || deadline.compareTo(CLOSE_AFTER_FAILURE) < 0
                ? deadline
                : CLOSE_AFTER_FAILURE;
        Deadline until = Deadline.in(limit);
        Deadline untilSilent = Deadline.in(CLOSE_WITH_SILENT);
        monitor.lock();
        try {
            while (!until.expired()) {
                boolean spareSilent = end.failure() != null && untilSilent.expired();
                if (departures.haveSeenOurBye(spareSilent ? end.amongHeard(peers) : peers)) {
                    break;
                }
                boolean waitsForSilent = end.failure() != null && !spareSilent;
                monitor.awaitNanos((waitsForSilent ? untilSilent : until).remainingNanos());
            }
        } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
        } finally {
            monitor.unlock();
        }
        wire.close();
    }
}
