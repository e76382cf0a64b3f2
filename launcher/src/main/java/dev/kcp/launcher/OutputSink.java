package dev.kcp.launcher;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/** Stdout or stderr of the launcher, shared by all ranks, or a log of one rank. */
final class OutputSink {
    private final OutputStream stream;
    private final ConsoleLine line;
    private final Consumer<IOException> onFailure;
    private boolean failed;
    private boolean readerGone;

    /**
     * Opens nothing.
     *
     * @param line shared by the sinks that may be the same terminal
     * @param onFailure told of the first write that fails; the bytes are dropped, so that ranks go on
     */
    OutputSink(OutputStream stream, ConsoleLine line, Consumer<IOException> onFailure) {
        this.stream = stream;
        this.line = line;
        this.onFailure = onFailure;
    }

    /** Writes and flushes all bytes without another writer's bytes between them; blocks while the reader is slow. */
    void write(byte[] bytes, int length) {
        line.lock();
        try {
            line.goesOn(null);
            put(bytes, 0, length);
        } finally {
            line.unlock();
        }
    }

    /**
     * As {@link #write(byte[], int)}, of one that writes lines, the last of which may go on in its next bytes.
     *
     * @param bytes a prefix of {@code prefixBytes}, left out where the line goes on, and at least one byte more
     */
    void write(Object writer, byte[] bytes, int prefixBytes) {
        line.lock();
        try {
            int begin = line.goesOn(writer) ? prefixBytes : 0;
            put(bytes, begin, bytes.length - begin);
            line.wrote(this, writer, bytes[bytes.length - 1] != '\n');
        } finally {
            line.unlock();
        }
    }

    /** Ends the line of {@code writer} with {@code end}, unless another has written since, which has ended it. */
    void endLine(Object writer, byte[] end) {
        line.lock();
        try {
            if (line.isOpenBy(writer)) {
                put(end, 0, end.length);
                line.wrote(this, writer, false);
            }
        } finally {
            line.unlock();
        }
    }

    /** The launcher's own words. */
    void write(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        write(bytes, bytes.length);
    }

    /** As {@link #write(String)}, but gives up where another writer holds the stream for longer than {@code millis}. */
    void tryWrite(String text, long millis) throws InterruptedException {
        if (line.tryLock(millis)) {
            try {
                write(text);
            } finally {
                line.unlock();
            }
        }
    }

    /** For the holder of the line's lock. */
    void put(byte[] bytes, int begin, int length) {
        if (readerGone) {
            return;
        }
        try {
            // A disk that was full may have room again.
            stream.write(bytes, begin, length);
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
        line.lock();
        try {
            stream.close();
        } catch (IOException e) {
            fail(e);
        } finally {
            line.unlock();
        }
    }
}
