package dev.kcp.launcher;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;

/** What one attempt at a job leaves behind that may say why it failed. */
final class Evidence {
    /** How long hung ranks may take to say what their threads do, before they are ended; they need a fraction of it. */
    private static final Duration THREAD_DUMP_LIMIT = Duration.ofSeconds(5);

    private final LaunchSpec spec;
    private final int attempt;
    private final Path scratch;
    private final Path calls;
    private final Instant startedAt = Instant.now();
    private Map<Integer, List<String>> threadDumps = Map.of();

    /**
     * Begins with the start of the first rank.
     *
     * @param scratch an existing folder of this job
     * @param calls where ranks keep the records of their collective calls
     */
    Evidence(LaunchSpec spec, int attempt, Path scratch, Path calls) {
        this.spec = spec;
        this.attempt = attempt;
        this.scratch = scratch;
        this.calls = calls;
    }

    /** Where ranks keep the records of their collective calls. */
    Path calls() {
        return calls;
    }

    /** Asks the ranks whose programs still run what their threads do. */
    void takeThreadDumps(List<WorkerProcess> workers) {
        Map<Integer, Long> groups = new TreeMap<>();
        for (WorkerProcess worker : workers) {
            OptionalLong group = worker.programPid();
            if (worker.poll().isEmpty() && group.isPresent()) {
                groups.put(worker.rank(), group.getAsLong());
            }
        }
        threadDumps = ThreadDumps.take(groups, scratch, THREAD_DUMP_LIMIT);
    }

    /**
     * The report of the job, whose ranks have all ended.
     *
     * @param first the first rank that failed of itself
     * @param overdue which limit of the launcher passed
     */
    FailureReport report(
            List<WorkerProcess> workers, List<RankEnd> ends, Optional<RankEnd> first, Optional<Overdue> overdue) {
        Map<Integer, RankTrace> traces = new HashMap<>();
        for (WorkerProcess worker : workers) {
            traces.put(worker.rank(), trace(worker));
        }
        return new FailureReport(
                Host.name(), startedAt, first, overdue, ends, traces, CallLog.compare(calls, spec.ranks()));
    }

    private RankTrace trace(WorkerProcess worker) {
        int rank = worker.rank();
        List<Path> logs = new ArrayList<>();
        spec.output().logFile(rank, attempt, "out").ifPresent(logs::add);
        spec.output().logFile(rank, attempt, "err").ifPresent(logs::add);
        List<Path> crashFolders = new ArrayList<>(List.of(Path.of("")));
        spec.output().logFolder().ifPresent(crashFolders::add);
        return new RankTrace(
                worker.lastLines(),
                logs,
                RankTrace.crashFile(crashFolders, rank, worker.programPid(), startedAt),
                RankTrace.lastCalls(CallLog.file(calls, rank)),
                threadDumps.getOrDefault(rank, List.of()));
    }
}
