package dev.kcp.conv;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/** Waits for a state, however long a busy machine takes to get there; the limit only ends a test that hangs. */
public final class Eventually {
    /** Far longer than anything takes; also the deadline of groups whose waits should never end by it. */
    public static final Duration LIMIT = Duration.ofMinutes(3);

    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

    private Eventually() {}

    /** Returns once the state is reached. */
    public static void reach(String what, BooleanSupplier state) {
        reach(() -> what, state);
    }

    /** Returns once the count is at most this. */
    public static void atMost(String what, long most, LongSupplier count) {
        reach(() -> what + ": most=" + most + " count=" + count.getAsLong(), () -> count.getAsLong() <= most);
    }

    private static void reach(Supplier<String> what, BooleanSupplier state) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!state.getAsBoolean()) {
            if (System.nanoTime() > end || Thread.currentThread().isInterrupted()) {
                throw new AssertionError("never came: " + what.get());
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }
}
