package dev.kcp.launcher;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;

/**
 * Copies one rank's stdout or stderr to the console and to a file, from its own thread, so that a full pipe never holds
 * the rank for long. Bytes pass unchanged; on the console, with a prefix, they pass in whole lines, and a last line
 * without its newline is completed.
 */
final class OutputPump {
    /** A longer line is cut here and goes on in a further line: no rank may fill the launcher's memory. */
    static final int MAX_LINE_BYTES = 16 << 20;

    private static final int CHUNK_BYTES = 64 << 10;
    private static final byte[] INCUBATOR_WARNING =
            "WARNING: Using incubator modules: jdk.incubator.vector\n".getBytes(StandardCharsets.US_ASCII);

    /**
     * Where the bytes go.
     *
     * @param console the launcher's stdout or stderr, or null
     * @param prefix before every line on the console, or null for bytes as they come
     * @param hidesJvmWarning whether the console is spared the JVM's warning about the vector module
     * @param log a file of this output alone, or null
     * @param tail keeps the last lines, or null
     */
    record Route(OutputSink console, String prefix, boolean hidesJvmWarning, OutputSink log, OutputTail tail) {}

    private final InputStream in;
    private final Route route;
    private final byte[] prefix;
    private final Thread thread;
    private final ByteArrayOutputStream ready = new ByteArrayOutputStream(CHUNK_BYTES);
    private final ByteArrayOutputStream pending = new ByteArrayOutputStream();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    /** When the pump last began to wait for the rank; {@link Long#MAX_VALUE} while it is not waiting for it. */
    private volatile long waitingSinceNanos = Long.MAX_VALUE;

    private OutputPump(String name, InputStream in, Route route) {
        this.in = in;
        this.route = route;
        this.prefix = route.prefix() == null ? null : route.prefix().getBytes(StandardCharsets.UTF_8);
        this.thread = Thread.ofPlatform().daemon().name(name).unstarted(this::run);
    }

    static OutputPump start(String name, InputStream in, Route route) {
        OutputPump pump = new OutputPump(name, in, route);
        pump.thread.start();
        return pump;
    }

    /** Runs an action once every byte has been passed on. */
    void onEnd(Runnable action) {
        ended.thenRun(action);
    }

    /** Whether every byte has been passed on. */
    boolean isDone() {
        return ended.isDone();
    }

    /** Whether the pump has been waiting for bytes for {@code nanos}; not while it waits for the sink. */
    boolean isIdleFor(long nanos) {
        long since = waitingSinceNanos;
        return since != Long.MAX_VALUE && System.nanoTime() - since > nanos;
    }

    private void run() {
        try {
            copy();
        } finally {
            ended.complete(null);
        }
    }

    private void copy() {
        byte[] chunk = new byte[CHUNK_BYTES];
        try {
            for (int length = read(chunk); length >= 0; length = read(chunk)) {
                if (route.log() != null) {
                    route.log().write(chunk, length);
                }
                if (prefix != null || route.console() == null) {
                    takeLines(chunk, length);
                    flushReady();
                } else {
                    route.console().write(chunk, length);
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
        if (route.log() != null) {
            route.log().close();
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
        byte[] line = pending.toByteArray();
        pending.reset();
        boolean isJvmWarning = Arrays.equals(line, INCUBATOR_WARNING);
        if (route.hidesJvmWarning() && isJvmWarning) {
            return;
        }
        if (route.tail() != null && !isJvmWarning) {
            route.tail().add(line);
        }
        if (route.console() != null) {
            ready.write(prefix, 0, prefix.length);
            ready.writeBytes(line);
        }
    }

    private void flushReady() {
        if (ready.size() > 0) {
            route.console().write(ready.toByteArray(), ready.size());
            ready.reset();
        }
    }
}
