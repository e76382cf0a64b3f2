package dev.kcp.launcher;

import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Whether the ranks of a failed job have said what they know. Those that met at the store learn of a failure from each
 * other and end by themselves; once most have, the others hang, unless it is of them that those who ended have heard.
 */
final class LastWords {
    private static final long LONGEST_NANOS = TimeUnit.SECONDS.toNanos(2);
    private static final long STRAGGLER_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private int endedRanks;
    private long firstEndNanos;
    private long lastEndNanos;

    /** Looks at a job in which a rank has failed, and whose ranks met. */
    boolean areOver(List<WorkerProcess> workers, long nowNanos) {
        List<WorkerProcess> ended =
                workers.stream().filter(worker -> worker.poll().isPresent()).toList();
        if (ended.size() > endedRanks) {
            firstEndNanos = endedRanks == 0 ? nowNanos : firstEndNanos;
            lastEndNanos = nowNanos;
            endedRanks = ended.size();
        }
        boolean culpritLives = ended.stream()
                .map(worker -> worker.blamed().orElse(worker.rank()))
                .anyMatch(rank ->
                        rank < workers.size() && workers.get(rank).poll().isEmpty());
        boolean mostEnded = 2 * ended.size() > workers.size() && !culpritLives;
        return nowNanos - firstEndNanos >= LONGEST_NANOS || mostEnded && nowNanos - lastEndNanos >= STRAGGLER_NANOS;
    }
}
