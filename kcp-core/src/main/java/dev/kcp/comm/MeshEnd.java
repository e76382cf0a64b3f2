package dev.kcp.comm;

import dev.kcp.KcpException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * How all groups of a mesh end at the first failure: peers are told, what is queued is dropped, listeners are called, and
 * every rank throws the same reason.
 *
 * <p>Nobody waits for a user's thread while ranks agree on the reason (see {@link Verdict}), so it takes milliseconds; a
 * rank that stopped altogether costs {@link #SETTLE_NANOS}.
 */
final class MeshEnd {
    private static final long SETTLE_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private final int rank;
    private final Monitor monitor;
    private final Departures departures;
    private final CallRecorder recorder;
    private final Verdict verdict = new Verdict();
    private final List<Consumer<KcpException>> listeners = new ArrayList<>();
    private Wire wire;
    private boolean closing;

    MeshEnd(int rank, Monitor monitor, Departures departures, CallRecorder recorder) {
        this.rank = rank;
        this.monitor = monitor;
        this.departures = departures;
        this.recorder = recorder;
    }

    void attach(Wire mesh) {
        wire = mesh;
    }

    /** This rank's first failure, or null while there is none; with the lock held. */
    Failure failure() {
        return verdict.own();
    }

    /** What all ranks agreed on, as far as they were heard, or null while there is no failure. */
    Failure agreed() {
        return monitor.locked(() -> verdict.own() == null ? null : verdict.settleNow(verdict.own()));
    }

    /** Whether the groups have failed or are being closed, so that nothing more is taken in; with the lock held. */
    boolean isOver() {
        return verdict.own() != null || closing;
    }

    /** From now on nothing fails any more: this rank leaves. With the lock held. */
    void leave() {
        closing = true;
    }

    /** Those of the peers that said why the groups failed; with the lock held. */
    BitSet amongHeard(BitSet peers) {
        return verdict.amongHeard(peers);
    }

    /** Throws if the groups have ended. */
    void checkAlive() {
        Failure failure = monitor.locked(verdict::own);
        if (failure != null) {
            throw failed(failure);
        }
    }

    /** Ends the groups if they have not ended, and gives what to throw: the same on every rank. */
    KcpException failed(Failure failure) {
        fail(failure);
        Failure agreed = awaitVerdict(failure);
        // Another thread may have ended the groups between this call's send and here.
        wire.dropPayload();
        recorder.failed(agreed);
        return agreed.toException();
    }

    private Failure awaitVerdict(Failure otherwise) {
        monitor.lock();
        try {
            long nanos = SETTLE_NANOS;
            boolean interrupted = Thread.interrupted();
            while (!verdict.isSettled() && nanos > 0) {
                try {
                    nanos = monitor.awaitNanos(nanos);
                } catch (InterruptedException _) {
                    interrupted = true;
                }
            }
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
            return verdict.settleNow(otherwise);
        } finally {
            monitor.unlock();
        }
    }

    /** Ends the groups without waiting; only the first reason counts. */
    void fail(Failure failure) {
        BitSet told = monitor.locked(() -> enter(failure));
        if (told == null) {
            return;
        }
        wire.dropPayload();
        Frame abort = new Frame.Abort(failure);
        told.stream().forEach(peer -> wire.send(peer, abort));
        recorder.failed(failure);
        List<Consumer<KcpException>> all = monitor.locked(() -> {
            List<Consumer<KcpException>> waiting = List.copyOf(listeners);
            listeners.clear();
            return waiting;
        });
        all.forEach(listener -> listener.accept(failure.toException()));
    }

    /** Peers to tell of this rank's first failure, or null where it is none. */
    private BitSet enter(Failure failure) {
        if (isOver()) {
            return null;
        }
        verdict.enter(rank, failure);
        BitSet peers = departures.living();
        peers.clear(rank);
        settleIfAllHeard();
        monitor.wake();
        return peers;
    }

    /** Takes the first failure that a peer knew. */
    void hear(int peer, Failure failure) {
        monitor.locked(() -> {
            verdict.hear(peer, failure);
            settleIfAllHeard();
        });
        fail(failure);
    }

    /** Looks whether all who take part were heard, after one more was or one left; with the lock held. */
    void settleIfAllHeard() {
        if (verdict.settle(departures.living())) {
            monitor.wake();
        }
    }

    /** Tells a listener of the failure that ends the groups, once; at once if there is one. */
    void onFailure(Consumer<KcpException> listener) {
        Failure failure = monitor.locked(() -> {
            if (verdict.own() == null) {
                listeners.add(listener);
            }
            return verdict.own();
        });
        if (failure != null) {
            listener.accept(failure.toException());
        }
    }
}
