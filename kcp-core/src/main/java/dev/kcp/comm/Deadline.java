package dev.kcp.comm;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * One moment that bounds several waits in a row.
 *
 * @param limit the time that was given
 * @param endNanos the moment, on {@link System#nanoTime()}'s clock
 */
record Deadline(Duration limit, long endNanos) {
    static Deadline in(Duration limit) {
        return new Deadline(limit, System.nanoTime() + limit.toNanos());
    }

    long remainingNanos() {
        return endNanos - System.nanoTime();
    }

    boolean expired() {
        return remainingNanos() <= 0;
    }

    /** Time left in milliseconds for socket timeouts, where 0 would mean for ever: at least 1, at most the given. */
    int remainingMillis(int most) {
        return Math.clamp(TimeUnit.NANOSECONDS.toMillis(remainingNanos()), 1, most);
    }

    static Duration check(Duration limit) {
        if (limit.isNegative() || limit.isZero() || limit.compareTo(Duration.ofDays(365)) > 0) {
            throw new IllegalArgumentException("not a deadline: deadline=" + limit);
        }
        return limit;
    }
}
