package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/**
 * Tells every rank what calls were queued here, a moment later and on a thread of its own, so that queueing costs no
 * message. The ranks' lists are compared call by call, whoever exchanges with whom.
 */
final class CallAnnouncer implements AutoCloseable {
    private static final long TURN_NANOS = 500_000;
    private static final long IDLE_NANOS = 5_000_000;
    private static final int BUSY_TURNS = 200;
    /** Calls that may be queued and not yet told; then the caller waits, as it would for a rank that is far behind. */
    private static final int MOST_UNTOLD = 256;

    private final Communicator told;
    private final Deque<Call> untold = new ArrayDeque<>();
    private final Thread thread;
    private volatile boolean closed;

    /** @param told for this purpose only; closed with this */
    CallAnnouncer(Communicator told) {
        this.told = told;
        thread = Thread.ofPlatform().daemon().name("kcp-nccl-calls").start(this::tell);
    }

    void announce(Call call) {
        while (true) {
            synchronized (untold) {
                if (untold.size() < MOST_UNTOLD) {
                    untold.addLast(call);
                    return;
                }
            }
            // Ends by what the announcing thread finds: its wait for the slow rank has a deadline.
            told.checkAlive();
            LockSupport.parkNanos(TURN_NANOS);
        }
    }

    /** Ranks that did not tell of the latest call that was told here. */
    List<Integer> lateRanks() {
        return told.lateRanks();
    }

    /** Waits until every rank has said the same; apart from what others state, who may do so on other threads. */
    void agree(String what, String statement) {
        told.agree(what, statement).await();
    }

    private void tell() {
        try {
            for (int idle = 0; !closed || !isEmpty(); idle = isEmpty() ? idle + 1 : 0) {
                for (Call call = next(); call != null; call = next()) {
                    told.exchange(call, List.of(), List.of()).await();
                    told();
                    idle = 0;
                }
                told.checkAlive();
                LockSupport.parkNanos(idle < BUSY_TURNS ? TURN_NANOS : IDLE_NANOS);
            }
        } catch (KcpException _) {
            // The group has failed; every rank says why.
            synchronized (untold) {
                untold.clear();
            }
        }
    }

    private boolean isEmpty() {
        synchronized (untold) {
            return untold.isEmpty();
        }
    }

    private Call next() {
        synchronized (untold) {
            return untold.peekFirst();
        }
    }

    private void told() {
        synchronized (untold) {
            untold.removeFirst();
        }
    }

    /** Tells what is left, and leaves. */
    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(thread);
        boolean interrupted = false;
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException _) {
                interrupted = true;
            }
        }
        told.close();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
