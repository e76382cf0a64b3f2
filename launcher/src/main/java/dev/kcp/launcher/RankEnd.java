package dev.kcp.launcher;

import java.time.Instant;

/**
 * How one rank ended.
 *
 * @param pid the program's process id, or the guard's where the program's is not known
 * @param at when the program ended, as its guard saw it
 * @param cause whose doing it was
 */
record RankEnd(int rank, long pid, ExitStatus status, Instant at, Cause cause) {
    enum Cause {
        /** The program ended of itself, or by a signal from elsewhere. */
        OWN,
        /** The launcher ended it. */
        LAUNCHER,
        /** It did not go even after SIGKILL: the machine holds it, for example in a device driver. */
        STUCK
    }

    boolean failedItself() {
        return cause == Cause.OWN && !status.isDone();
    }

    /** As in {@code rank 2: DESCRIBE}. */
    String describe() {
        return switch (cause) {
            case OWN -> status.describe();
            case LAUNCHER ->
                status.isDone() || status.signal().isEmpty()
                        ? "exited with code " + status.value() + " when ended by kcp"
                        : "ended by kcp with " + status.signal().get();
            case STUCK -> "still there after SIGKILL";
        };
    }
}
