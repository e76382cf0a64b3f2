package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One rank's end of its connections to all ranks: groups, and how they end. A failure of any group ends all of them.
 *
 * <p>Nobody waits for a user's thread while ranks agree on the reason (see {@link Verdict}), so it takes milliseconds; a
 * rank that stopped altogether costs {@link #SETTLE_NANOS}.
 */
final class Mesh {
    private static final long SETTLE_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
    private static final Duration CLOSE_AFTER_FAILURE = Duration.ofSeconds(2);
    /** For a goodbye to a rank that kept silent while the others agreed on why the group failed. */
    private static final Duration CLOSE_WITH_SILENT = Duration.ofMillis(300);

    private final int rank;
    private final int size;
    private final String transport;
    private final Duration deadline;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Map<String, GroupState> groups = new HashMap<>();
    private final Verdict verdict = new Verdict();
    private final BitSet saidBye = new BitSet();
    private final BitSet sawOurBye = new BitSet();
    private final BitSet gone = new BitSet();
    private final CallRecorder recorder;
    private final List<Consumer<KcpException>> failureListeners = new ArrayList<>();
    private Wire wire;
    private int openGroups;
    private int headerWaiters;
    private boolean closing;

    Mesh(int rank, int size, String transport, Duration deadline) {
        this.rank = rank;
        this.size = size;
        this.transport = transport;
        this.deadline = Deadline.check(deadline);
        this.recorder = new CallRecorder(rank, size, transport);
    }

    /** Connects the mesh, once, before its first use. */
    void attach(Wire wire) {
        this.wire = wire;
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
            saidBye.stream().forEach(known::left);
            openGroups++;
            return known;
        });
        return new GroupCommunicator(this, state, worldRanks);
    }

    private GroupState group(String name) {
        return groups.computeIfAbsent(name, n -> new GroupState(n, rank));
    }

    <T> T locked(Supplier<T> body) {
        lock.lock();
        try {
            return body.get();
        } finally {
            lock.unlock();
        }
    }

    /** Wakes the threads that wait, so that they look again. */
    void wake() {
        lock.lock();
        try {
            changed.signalAll();
        } finally {
            lock.unlock();
        }
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
        lock.lock();
        try {
            while (true) {
                if (verdict.own() != null) {
                    found = verdict.own();
                    break;
                }
                found = obstacle.get();
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
                changed.awaitNanos(Math.min(nanos, lookAgainNanos));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            found = new Failure(Code.RANK_FAILED, rank, -1, "rank " + rank + " was interrupted while it waited");
        } finally {
            lock.unlock();
        }
        throw failed(found);
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

    /** Throws if the group has ended. */
    void checkAlive() {
        Failure failure = locked(verdict::own);
        if (failure != null) {
            throw failed(failure);
        }
    }

    /** Ends the group if it has not ended, and gives what to throw: the same on every rank. */
    KcpException failed(Failure failure) {
        fail(failure);
        Failure agreed;
        lock.lock();
        try {
            long nanos = SETTLE_NANOS;
            boolean interrupted = Thread.interrupted();
            while (!verdict.isSettled() && nanos > 0) {
                try {
                    nanos = changed.awaitNanos(nanos);
                } catch (InterruptedException _) {
                    interrupted = true;
                }
            }
            agreed = verdict.settleNow(failure);
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        } finally {
            lock.unlock();
        }
        // Another thread may have ended the group between this call's send and here.
        wire.dropPayload();
        recorder.failed(agreed);
        return agreed.toException();
    }

    /** Ends the group without waiting; only the first reason counts. */
    void fail(Failure failure) {
        BitSet tell;
        lock.lock();
        try {
            if (verdict.own() != null || closing) {
                return;
            }
            verdict.enter(rank, failure);
            tell = living();
            settleIfAllHeard();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        wire.dropPayload();
        Frame abort = new Frame.Abort(failure);
        tell.stream().filter(peer -> peer != rank).forEach(peer -> wire.send(peer, abort));
        recorder.failed(failure);
        List<Consumer<KcpException>> listeners = locked(() -> {
            List<Consumer<KcpException>> all = List.copyOf(failureListeners);
            failureListeners.clear();
            return all;
        });
        listeners.forEach(listener -> listener.accept(failure.toException()));
    }

    /** Tells a listener of the failure that ends the group, once; at once if there is one. */
    void onFailure(Consumer<KcpException> listener) {
        Failure failure = locked(() -> {
            if (verdict.own() == null) {
                failureListeners.add(listener);
            }
            return verdict.own();
        });
        if (failure != null) {
            listener.accept(failure.toException());
        }
    }

    private BitSet living() {
        BitSet living = new BitSet();
        living.set(0, size);
        living.andNot(gone);
        living.andNot(saidBye);
        return living;
    }

    private void settleIfAllHeard() {
        if (verdict.settle(living())) {
            changed.signalAll();
        }
    }

    /** Takes a frame without payload from a peer; called by the wire. */
    void deliver(int peer, Frame frame) {
        switch (frame) {
            case Frame.Header header -> header(peer, header);
            case Frame.Abort abort -> abort(peer, abort.failure());
            case Frame.Statement statement -> stated(peer, statement);
            case Frame.Leave leave -> left(peer, leave.group());
            case Frame.Bye _ -> bye(peer);
            case Frame.ByeSeen _ -> mark(sawOurBye, peer);
        }
    }

    private void header(int peer, Frame.Header header) {
        Failure failure = locked(() -> {
            if (verdict.own() != null || closing) {
                return null;
            }
            GroupState state = group(header.group());
            Failure wrong = state.header(peer, header);
            if (headerWaiters > 0 || state.isStepComplete()) {
                changed.signalAll();
            }
            return wrong;
        });
        if (failure != null) {
            fail(failure);
        }
    }

    private void stated(int peer, Frame.Statement statement) {
        Failure failure = locked(() -> {
            if (verdict.own() != null || closing) {
                return null;
            }
            GroupState state = group(statement.group());
            state.statements().hear(peer, statement.number(), statement.text());
            changed.signalAll();
            return state.differenceIn(statement.number());
        });
        // At once, not when this rank comes to wait for it: it may be inside a call that others will not make.
        if (failure != null) {
            fail(failure);
        }
    }

    /** Takes a run of payload that follows the peer's last header in the group; copies it before it returns. */
    void payload(int peer, String group, MemorySegment run) {
        lock.lock();
        try {
            if (verdict.own() == null && !closing) {
                GroupState state = group(group);
                state.payload(peer, run);
                if (state.isStepComplete()) {
                    changed.signalAll();
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private void abort(int peer, Failure failure) {
        lock.lock();
        try {
            verdict.hear(peer, failure);
            settleIfAllHeard();
        } finally {
            lock.unlock();
        }
        fail(failure);
    }

    private void left(int peer, String name) {
        lock.lock();
        try {
            GroupState state = group(name);
            state.left(peer);
            if (state.isOver()) {
                groups.remove(name);
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void bye(int peer) {
        lock.lock();
        try {
            saidBye.set(peer);
            groups.values().forEach(state -> state.left(peer));
            settleIfAllHeard();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        wire.send(peer, new Frame.ByeSeen());
    }

    private void mark(BitSet set, int peer) {
        lock.lock();
        try {
            set.set(peer);
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** A connection ended. Orderly if the peer had said goodbye; otherwise the peer is gone, and with it the group. */
    void lost(int peer, String how) {
        boolean orderly = locked(() -> {
            boolean said = saidBye.get(peer);
            gone.set(peer);
            settleIfAllHeard();
            changed.signalAll();
            return said;
        });
        if (!orderly) {
            fail(new Failure(Code.RANK_FAILED, peer, -1, "rank " + peer + " is gone (" + how + ")"));
        }
    }

    /** Closes a group; with the last one the mesh says goodbye and ends its connections. */
    void close(GroupState state, int[] worldRanks) {
        boolean last = locked(() -> {
            state.close();
            if (state.isOver()) {
                groups.remove(state.name());
            }
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
            closing = true;
            BitSet all = living();
            all.or(saidBye);
            all.andNot(gone);
            all.clear(rank);
            return all;
        });
        peers.stream().forEach(peer -> wire.send(peer, new Frame.Bye()));
        Duration limit = locked(verdict::own) == null || deadline.compareTo(CLOSE_AFTER_FAILURE) < 0
                ? deadline
                : CLOSE_AFTER_FAILURE;
        Deadline until = Deadline.in(limit);
        Deadline untilSilent = Deadline.in(CLOSE_WITH_SILENT);
        lock.lock();
        try {
            while (!until.expired()) {
                boolean spareSilent = verdict.own() != null && untilSilent.expired();
                if (isSeen(spareSilent ? verdict.amongHeard(peers) : peers)) {
                    break;
                }
                boolean waitsForSilent = verdict.own() != null && !spareSilent;
                changed.awaitNanos((waitsForSilent ? untilSilent : until).remainingNanos());
            }
        } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
        } finally {
            lock.unlock();
        }
        wire.close();
    }

    private boolean isSeen(BitSet peers) {
        BitSet waiting = (BitSet) peers.clone();
        waiting.andNot(sawOurBye);
        waiting.andNot(gone);
        return waiting.isEmpty();
    }
}
