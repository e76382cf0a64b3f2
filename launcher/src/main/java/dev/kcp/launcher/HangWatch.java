package dev.kcp.launcher;

import dev.kcp.comm.CallProgress;
import dev.kcp.comm.CallRecorder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Notices that a job hangs: no rank ended a collective call for a while, though all that while some rank was inside one.
 * Knows only of ranks that keep a record of their calls.
 */
final class HangWatch {
    private static final long LOOK_NANOS = 100_000_000;

    private final Path folder;
    private final int ranks;
    private final long limitNanos;
    private long lookedNanos;
    private long finished = -1;
    private long sinceNanos;
    private List<Integer> inside = List.of();

    /** @param folder where the ranks keep their records; those of an earlier job are removed */
    HangWatch(Path folder, int ranks, Duration limit) {
        this.folder = folder;
        this.ranks = ranks;
        this.limitNanos = limit.toNanos();
        this.lookedNanos = System.nanoTime() - LOOK_NANOS;
        try {
            for (int rank = 0; rank < ranks; rank++) {
                Files.deleteIfExists(CallRecorder.progressFile(folder, rank));
            }
        } catch (IOException e) {
            throw new UncheckedIOException("an earlier job's record of calls stays: folder=" + folder, e);
        }
    }

    /** Looks, at most every tenth of a second, and says whether the job hangs. */
    boolean sees(long nowNanos) {
        if (nowNanos - lookedNanos < LOOK_NANOS) {
            return false;
        }
        lookedNanos = nowNanos;
        long allFinished = 0;
        List<Integer> nowInside = new ArrayList<>();
        for (int rank = 0; rank < ranks; rank++) {
            Optional<CallProgress.State> state = CallProgress.read(CallRecorder.progressFile(folder, rank));
            if (state.isPresent()) {
                allFinished += state.get().finished();
                if (state.get().isInside()) {
                    nowInside.add(rank);
                }
            }
        }
        if (allFinished != finished || nowInside.isEmpty() || inside.isEmpty()) {
            finished = allFinished;
            sinceNanos = nowNanos;
        }
        inside = nowInside;
        return !nowInside.isEmpty() && nowNanos - sinceNanos >= limitNanos;
    }

    /** The ranks that were inside a call when it was last looked. */
    List<Integer> inside() {
        return inside;
    }
}
