package dev.kcp.launcher;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * Ctrl-Z: stops the ranks with their launcher, and lets them go on with it. They are in sessions of their own, where a
 * terminal's signals do not come. Also the job's clock, which stands while the job does.
 */
final class Suspension implements AutoCloseable {
    /** Shorter jobs are over before anybody could stop them, and are spared what heeding a signal costs. */
    private static final long SETTLED_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final List<WorkerProcess> workers;
    private final long beginNanos = System.nanoTime();
    private SignalAction action;
    private long stoppedNanos;
    private boolean isStopped;
    private long stoppedAtNanos;

    /** @param workers the ranks, in a list that any thread may read */
    Suspension(List<WorkerProcess> workers) {
        this.workers = workers;
    }

    /** Heeds Ctrl-Z, once the job has run for a moment; called again and again by the thread that watches the job. */
    void heed() {
        if (action == null && System.nanoTime() - beginNanos >= SETTLED_NANOS) {
            action = SignalAction.on("TSTP", this::stop);
        }
    }

    /** As {@link System#nanoTime()}, without the time that the job was stopped for. */
    synchronized long nanoTime() {
        return (isStopped ? stoppedAtNanos : System.nanoTime()) - stoppedNanos;
    }

    private void stop() {
        if (!canBeContinued()) {
            return;
        }
        List<Long> stopped = WorkerProcess.liveGroups(workers);
        hold();
        try {
            // SIGSTOP, since the kernel keeps SIGTSTP from sessions without a terminal. This call returns when somebody
            // continues this process.
            ProcessGroups.signal("STOP", stopped, "kill -s STOP \"$PPID\"");
            ProcessGroups.signal("CONT", stopped, "");
        } catch (IOException e) {
            Main.note("the ranks cannot be stopped: cause=" + e.getMessage());
        } finally {
            release();
        }
    }

    private synchronized void hold() {
        stoppedAtNanos = System.nanoTime();
        isStopped = true;
    }

    private synchronized void release() {
        stoppedNanos += System.nanoTime() - stoppedAtNanos;
        isStopped = false;
    }

    /**
     * Whether a shell would see this process stop: the first ancestor of another process group is in the same session. Else
     * nobody would continue it, and the kernel, too, does not stop such a process.
     */
    private static boolean canBeContinued() {
        Optional<ProcessStat> own = ProcessStat.of(ProcessHandle.current().pid());
        Optional<ProcessStat> above = own;
        while (above.isPresent() && above.get().group() == own.get().group()) {
            above = ProcessStat.of(above.get().parent());
        }
        return above.isPresent() && above.get().session() == own.get().session();
    }

    @Override
    public void close() {
        if (action != null) {
            action.close();
        }
    }
}
