package dev.kcp.launcher;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The last line of the console, and the right to write. Stdout and stderr share one: where they are the same terminal or
 * pipe, a line on one must not be cut by a line on the other.
 */
final class ConsoleLine {
    private final ReentrantLock lock = new ReentrantLock();
    private OutputSink sink;
    private Object writer;

    void lock() {
        lock.lock();
    }

    boolean tryLock(long millis) throws InterruptedException {
        return lock.tryLock(millis, TimeUnit.MILLISECONDS);
    }

    void unlock() {
        lock.unlock();
    }

    /** Whether the next bytes of {@code own} go on in a line that it has begun; the open line of another is ended. */
    boolean goesOn(Object own) {
        boolean goesOn = isOpenBy(own);
        if (writer != null && !goesOn) {
            writer = null;
            sink.put(new byte[] {'\n'}, 0, 1);
        }
        return goesOn;
    }

    /** Whether {@code own} wrote last, and its line has not ended. */
    boolean isOpenBy(Object own) {
        return writer != null && writer == own;
    }

    /** {@code own} has written to {@code to}, and its last line has not ended if {@code isOpen}. */
    void wrote(OutputSink to, Object own, boolean isOpen) {
        sink = to;
        writer = isOpen ? own : null;
    }
}
