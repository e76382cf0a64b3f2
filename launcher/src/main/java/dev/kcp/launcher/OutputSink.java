package dev.kcp.launcher;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * Stdout or stderr of the launcher, shared by all ranks, or a log of one rank. Stdout and stderr share one lock: where they
 * are the same terminal or pipe, a long line on one must not be cut by a line on the other.
 */
final class OutputSink {
    private final OutputStream stream;
    private final ReentrantLock lock;
    private final Consumer<IOException> onFailure;
    private boolean failed;
    private boolean readerGone;

    /** @param onFailure told of the first write that fails; the bytes are dropped, so that ranks go on */
    OutputSink(OutputStream stream, ReentrantLock lock, Consumer<IOException> onFailure) {
        this.stream = stream;
        this.lock = lock;
        this.onFailure = onFailure;
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
        if (readerGone) {
            return;
        }
        try {
            // A disk that was full may have room again.
            stream.write(bytes, 0, length);
            stream.flush();
        } catch (IOException e) {
            fail(e);
        }
    }

    private void fail(IOException e) {
        readerGone = e instanceof StandardStream.ReaderGone;
        if (!failed) {
            failed = true;
            onFailure.accept(e);
        }
    }

    /** Closes a log. */
    void close() {
        lock.lock();
        try {
            stream.close();
        } catch (IOException e) {
            fail(e);
        } finally {
            lock.unlock();
        }
    }
}
