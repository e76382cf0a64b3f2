package dev.kcp.launcher;

import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Whether the ranks of a failed job have said what they know. Those that met at the store learn of a failure from each
 * other and end by themselves; once most have, the others hang.
 */
final class LastWords {
    private static final long LONGEST_NANOS = TimeUnit.SECONDS.toNanos(2);
    private static final long STRAGGLER_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private long endedRanks;
    private long firstEndNanos;
    private long lastEndNanos;

    /** Looks at a job in which a rank has failed, and whose ranks met. */
    boolean areOver(List<WorkerProcess> workers, long nowNanos) {
        long ended =
                workers.stream().filter(worker -> worker.poll().isPresent()).count();
        if (ended > endedRanks) {
            firstEndNanos = endedRanks == 0 ? nowNanos : firstEndNanos;
            lastEndNanos = nowNanos;
            endedRanks = ended;
        }
        boolean mostEnded = 2 * ended > workers.size();
        return nowNanos - firstEndNanos >= LONGEST_NANOS || mostEnded && nowNanos - lastEndNanos >= STRAGGLER_NANOS;
    }
}
