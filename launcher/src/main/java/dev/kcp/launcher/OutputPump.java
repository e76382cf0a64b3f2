package dev.kcp.launcher;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Copies one rank's stdout or stderr to a sink, from its own thread, so that a full pipe never holds the rank for long.
 * Bytes pass unchanged; with a prefix they pass in whole lines, and a last line without its newline is completed.
 */
final class OutputPump {
    /** A longer line is cut here and goes on in a further line: no rank may fill the launcher's memory. */
    static final int MAX_LINE_BYTES = 16 << 20;

    private static final int CHUNK_BYTES = 64 << 10;
    private static final int MAX_MESSAGE_BYTES = 2000;
    private static final byte[] INCUBATOR_WARNING =
            "WARNING: Using incubator modules: jdk.incubator.vector\n".getBytes(StandardCharsets.US_ASCII);

    private final InputStream in;
    private final OutputSink sink;
    private final byte[] prefix;
    private final boolean hidesJvmWarning;
    private final Thread thread;
    private final ByteArrayOutputStream ready = new ByteArrayOutputStream(CHUNK_BYTES);
    private final ByteArrayOutputStream pending = new ByteArrayOutputStream();
    /** The last line that begins a message: what follows indented, as in a stack trace, belongs to it. */
    private volatile String lastMessage = "";
    /** When the pump last began to wait for the rank; {@link Long#MAX_VALUE} while it is not waiting for it. */
    private volatile long waitingSinceNanos = Long.MAX_VALUE;

    private OutputPump(String name, InputStream in, OutputSink sink, String prefix, boolean hidesJvmWarning) {
        this.in = in;
        this.sink = sink;
        this.prefix = prefix == null ? null : prefix.getBytes(StandardCharsets.UTF_8);
        this.hidesJvmWarning = hidesJvmWarning;
        this.thread = Thread.ofPlatform().daemon().name(name).unstarted(this::copy);
    }

    /** Whole lines, each behind {@code prefix}. */
    static OutputPump lines(String name, InputStream in, OutputSink sink, String prefix, boolean hidesJvmWarning) {
        return started(new OutputPump(name, in, sink, prefix, hidesJvmWarning));
    }

    /** Every byte as it comes. */
    static OutputPump raw(String name, InputStream in, OutputSink sink) {
        return started(new OutputPump(name, in, sink, null, false));
    }

    private static OutputPump started(OutputPump pump) {
        pump.thread.start();
        return pump;
    }

    /** Whether every byte has been passed on. */
    boolean isDone() {
        return !thread.isAlive();
    }

    /** Whether the pump has been waiting for bytes for {@code nanos}; not while it waits for the sink. */
    boolean isIdleFor(long nanos) {
        long since = waitingSinceNanos;
        return since != Long.MAX_VALUE && System.nanoTime() - since > nanos;
    }

    /** The last line that was not indented, without prefix and newline, cut to a length for reports; may be empty. */
    String lastMessage() {
        return lastMessage;
    }

    private void copy() {
        byte[] chunk = new byte[CHUNK_BYTES];
        try {
            for (int length = read(chunk); length >= 0; length = read(chunk)) {
                if (prefix == null) {
                    sink.write(chunk, length);
                } else {
                    takeLines(chunk, length);
                    flushReady();
                }
            }
        } catch (IOException gone) {
            // The pipe was closed under the reader: the same as its end.
        }
        if (pending.size() > 0) {
            pending.write('\n');
            takePending();
            flushReady();
        }
    }

    private int read(byte[] chunk) throws IOException {
        waitingSinceNanos = System.nanoTime();
        try {
            return in.read(chunk);
        } finally {
            waitingSinceNanos = Long.MAX_VALUE;
        }
    }

    private void takeLines(byte[] chunk, int length) {
        int begin = 0;
        for (int i = 0; i < length; i++) {
            if (chunk[i] == '\n') {
                pending.write(chunk, begin, i + 1 - begin);
                takePending();
                begin = i + 1;
            }
        }
        pending.write(chunk, begin, length - begin);
        if (pending.size() > MAX_LINE_BYTES) {
            pending.write('\n');
            takePending();
        }
    }

    private void takePending() {
        boolean hidden = hidesJvmWarning
                && pending.size() == INCUBATOR_WARNING.length
                && Arrays.equals(pending.toByteArray(), INCUBATOR_WARNING);
        if (!hidden) {
            byte[] line = pending.toByteArray();
            ready.write(prefix, 0, prefix.length);
            ready.writeBytes(line);
            if (line.length > 1 && !Character.isWhitespace(line[0])) {
                lastMessage = new String(line, 0, Math.min(line.length - 1, MAX_MESSAGE_BYTES), StandardCharsets.UTF_8);
            }
        }
        pending.reset();
    }

    private void flushReady() {
        if (ready.size() > 0) {
            sink.write(ready.toByteArray(), ready.size());
            ready.reset();
        }
    }
}
