package dev.kcp.launcher;

import java.io.IOException;
import java.io.InputStream;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * Copies one rank's stdout or stderr to the console and to a file, from its own thread, so that a full pipe never holds
 * the rank for long. Bytes pass unchanged; on the console, with a prefix, they pass as {@link RankLines} cuts them.
 */
final class OutputPump {
    /** See {@link #reads}. */
    static final long PASSING_ON = 0;

    private static final int CHUNK_BYTES = 64 << 10;

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
    private final Optional<RankLines> lines;
    private final Thread thread;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile long reads = PASSING_ON;
    private long begunReads;

    private OutputPump(String name, InputStream in, Route route) {
        this.in = in;
        this.route = route;
        this.lines = Optional.ofNullable(route.prefix()).map(prefix -> new RankLines(route));
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

    /** The number of the read that the pump waits in; {@link #PASSING_ON} while it passes bytes on or waits for the sink. */
    long reads() {
        return reads;
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
                if (lines.isPresent()) {
                    lines.get().take(chunk, length);
                } else if (route.console() != null) {
                    route.console().write(chunk, length);
                }
            }
        } catch (IOException gone) {
            // The pipe was closed under the reader: the same as its end.
        }
        lines.ifPresent(RankLines::end);
        if (route.log() != null) {
            route.log().close();
        }
    }

    private int read(byte[] chunk) throws IOException {
        reads = ++begunReads;
        try {
            return in.read(chunk);
        } finally {
            reads = PASSING_ON;
        }
    }
}
