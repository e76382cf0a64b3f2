package dev.kcp.launcher;

import java.util.concurrent.TimeUnit;

/** A Ctrl-C while this process ends already: it then ends at once, whatever it still waited for. */
final class Impatience {
    /** Closer ones are one: timeout(1) sends its signal to the process and to its group. */
    private static final long APART_NANOS = TimeUnit.MILLISECONDS.toNanos(300);

    private Impatience() {}

    /**
     * From now on; called by a shutdown hook.
     *
     * @param last what is done before the end
     */
    static void heed(Runnable last) {
        long sinceNanos = System.nanoTime();
        SignalAction.on("INT", () -> {
            if (System.nanoTime() - sinceNanos > APART_NANOS) {
                try {
                    last.run();
                } finally {
                    Runtime.getRuntime().halt(ExitCode.INTERRUPTED);
                }
            }
        });
    }
}
