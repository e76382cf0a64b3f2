package dev.kcp.launcher;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Turns SIGTERM and SIGINT into a question that a run answers when it can: the JVM stays until the run has saved its state
 * and this is closed, or patience ends, or a further SIGINT comes. The JVM then exits with 128 + the signal.
 */
final class StopRequest implements AutoCloseable {
    private final CountDownLatch done = new CountDownLatch(1);
    private final Thread hook;
    private volatile boolean asked;

    /** @param patience longest time that the JVM stays after the signal */
    StopRequest(Duration patience) {
        hook = new Thread(() -> await(patience), "kcp-stop");
        Runtime.getRuntime().addShutdownHook(hook);
    }

    private void await(Duration patience) {
        asked = true;
        Impatience.heed(() -> {});
        try {
            done.await(patience.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Whether the process was told to end. */
    boolean isAsked() {
        return asked;
    }

    @Override
    public void close() {
        done.countDown();
        if (!asked) {
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException endsAlready) {
                // The signal came just now; the hook finds the latch open.
            }
        }
    }
}
