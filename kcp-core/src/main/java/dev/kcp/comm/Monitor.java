package dev.kcp.comm;

import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/** The lock that guards all that one rank knows of its mesh, and the one condition for which its threads wait. */
final class Monitor {
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();

    <T> T locked(Supplier<T> body) {
        lock.lock();
        try {
            return body.get();
        } finally {
            lock.unlock();
        }
    }

    void locked(Runnable body) {
        lock.lock();
        try {
            body.run();
        } finally {
            lock.unlock();
        }
    }

    /** Wakes the threads that wait, so that they look again. */
    void wake() {
        locked(changed::signalAll);
    }

    void lock() {
        lock.lock();
    }

    void unlock() {
        lock.unlock();
    }

    /** Waits for a wake, with the lock held; returns what is left of the time. */
    long awaitNanos(long nanos) throws InterruptedException {
        return changed.awaitNanos(nanos);
    }
}
