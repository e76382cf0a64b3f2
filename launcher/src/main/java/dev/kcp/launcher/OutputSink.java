package dev.kcp.launcher;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Stdout or stderr of the launcher, shared by all ranks. Both ends share one lock: where they are the same terminal or
 * pipe, a long line on one must not be cut by a line on the other.
 */
final class OutputSink {
    private final OutputStream stream;
    private final ReentrantLock lock;
    private final Runnable onBroken;
    private boolean broken;

    /** @param onBroken called once when the stream takes no more bytes; later ones are dropped, so that ranks go on */
    OutputSink(OutputStream stream, ReentrantLock lock, Runnable onBroken) {
        this.stream = stream;
        this.lock = lock;
        this.onBroken = onBroken;
    }

    /** Writes and flushes all bytes without another writer's bytes between them; blocks while the reader is slow. */
    void write(byte[] bytes, int length) {
        lock.lock();
        try {
            put(bytes, length);
        } finally {
            lock.unlock();
        }
    }

    /** The launcher's own words. */
    void write(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        write(bytes, bytes.length);
    }

    /** As {@link #write(String)}, but gives up where another writer holds the stream for longer than {@code millis}. */
    void tryWrite(String text, long millis) throws InterruptedException {
        if (lock.tryLock(millis, TimeUnit.MILLISECONDS)) {
            try {
                byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
                put(bytes, bytes.length);
            } finally {
                lock.unlock();
            }
        }
    }

    private void put(byte[] bytes, int length) {
        if (broken) {
            return;
        }
        try {
            stream.write(bytes, 0, length);
            stream.flush();
        } catch (IOException e) {
            broken = true;
            onBroken.run();
        }
    }
}
