package dev.kcp.comm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import java.util.stream.Stream;

/** Threads and connections that have done their work take a moment to go; counts of them are read until they settle. */
public final class Settled {
    private static final long LIMIT_NANOS = TimeUnit.SECONDS.toNanos(10);

    private Settled() {}

    /** Files that this process has open. */
    public static long openFiles() {
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            return files.count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The count as soon as it is at most {@code expected}, or what it still is after ten seconds. */
    public static long count(LongSupplier counted, long expected) {
        long until = System.nanoTime() + LIMIT_NANOS;
        while (counted.getAsLong() > expected && System.nanoTime() < until) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
        return counted.getAsLong();
    }
}
