package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.Words;
import dev.kcp.comm.StoreServer;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Starts the ranks of one job on this machine, watches them, and ends all at the first failure, at the timeout, or when
 * this JVM is told to end. One thread decides everything; pumps, exits and the shutdown hook only wake it.
 */
public final class LocalAgent {
    private static final long POLL_MILLIS = 100;
    private static final long ENDING_POLL_MILLIS = 5;
    /** How long after the grace the guards may take before the agent kills for itself, and again before it gives up. */
    private static final Duration GUARD_SLACK = Duration.ofMillis(800);

    private static final Duration SHUTDOWN_SLACK = Duration.ofSeconds(2);

    private enum Stop {
        NONE,
        FAILURE,
        TIMEOUT,
        HANG,
        OUTPUT_CLOSED,
        SHUTDOWN
    }

    private final LaunchSpec spec;
    private final int attempt;
    private final OutputSink err;
    private final OutputRouting output;
    private final List<WorkerProcess> workers = new CopyOnWriteArrayList<>();
    private final Semaphore wake = new Semaphore(0);
    private final CountDownLatch finished = new CountDownLatch(1);
    private volatile boolean shutdown;
    private volatile boolean outputClosed;
    private volatile boolean outputLost;
    private boolean interrupted;
    private StoreServer store;
    private Evidence evidence;
    private List<Integer> insideWhenHung = List.of();
    private Stop stop = Stop.NONE;
    private long stopNanos;

    private LocalAgent(LaunchSpec spec, int attempt, OutputStream stdout, OutputStream stderr) {
        this.spec = spec;
        this.attempt = attempt;
        ConsoleLine line = new ConsoleLine();
        OutputSink out = new OutputSink(stdout, line, this::endWithoutReader);
        this.err = new OutputSink(stderr, line, e -> lose("standard error", e));
        this.output = new OutputRouting(spec.output(), attempt, out, err, this::lose);
    }

    /**
     * Runs the job to its end with this process's stdout and stderr. If the JVM is told to end meanwhile, the ranks are
     * ended first and this method does not matter any more: the JVM exits with 128 + the signal.
     *
     * @throws IllegalArgumentException if the program cannot be started
     * @throws dev.kcp.KcpException if this machine lacks what starting ranks needs
     */
    public static LaunchResult run(LaunchSpec spec) {
        return run(spec, StandardStream.out(), StandardStream.err());
    }

    static LaunchResult run(LaunchSpec spec, OutputStream stdout, OutputStream stderr) {
        long startNanos = System.nanoTime();
        LaunchSpec left = spec;
        boolean outputLost = false;
        for (int attempt = 0; ; attempt++) {
            LocalAgent agent = new LocalAgent(left, attempt, stdout, stderr);
            LaunchResult result = agent.run();
            outputLost |= agent.outputLost;
            if (!result.rankFailed() || attempt == spec.maxRestarts()) {
                boolean isLossTheOnlyFailure = outputLost && result.exitCode() == ExitCode.DONE;
                return isLossTheOnlyFailure ? LaunchResult.of(ExitCode.BAD_DATA) : result;
            }
            if (spec.timeout().isPresent()) {
                Duration used = Duration.ofNanos(System.nanoTime() - startNanos);
                Duration rest = spec.timeout().get().minus(used);
                // An attempt without time of its own ends at once, with the report that the timeout passed.
                left = spec.withTimeout(rest.isPositive() ? rest : Duration.ofNanos(1));
            }
            agent.err.write("kcp: starting all ranks again: restart=" + (attempt + 1) + " max-restarts="
                    + spec.maxRestarts() + "\n");
        }
    }

    private void endWithoutReader(IOException failure) {
        if (failure instanceof StandardStream.ReaderGone) {
            outputClosed = true;
            wake.release();
        } else {
            lose("standard output", failure);
        }
    }

    /** Ranks may go on without room for what they say, but the job is no success. */
    private void lose(String where, IOException failure) {
        if (!(failure instanceof StandardStream.ReaderGone)) {
            outputLost = true;
            err.write(PrintedOutput.lost(where, failure) + "\n");
        }
    }

    private LaunchResult run() {
        Map<String, String> inherited = JobEnvironment.inherited(System.getenv());
        inherited.putAll(spec.environment());
        GuardTools tools = GuardTools.find(System.getenv("PATH"));
        output.prepare();
        Thread hook = new Thread(this::endBeforeTheJvm, "kcp-agent-shutdown");
        Runtime.getRuntime().addShutdownHook(hook);
        try (JobFolder folder = new JobFolder();
                MasterPort masterPort = MasterPort.claim()) {
            JobEnvironment job = JobEnvironment.create(spec.ranks(), masterPort.number());
            try (StoreServer opened = StoreServer.start(JobEnvironment.LOOPBACK, 0, job.jobId(), job.secret())) {
                store = opened;
                return runIn(folder, job, tools, inherited);
            }
        } finally {
            finished.countDown();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException shuttingDown) {
                // The hook is running and about to see that the job has finished.
            }
        }
    }

    private LaunchResult runIn(JobFolder folder, JobEnvironment job, GuardTools tools, Map<String, String> inherited) {
        try {
            startAll(folder, job, tools, inherited);
            try (Suspension suspension = new Suspension(workers)) {
                return watch(suspension);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("cannot start ranks: started=" + workers.size(), e);
        } finally {
            endAll();
            workers.forEach(WorkerProcess::release);
        }
    }

    private void startAll(JobFolder folder, JobEnvironment job, GuardTools tools, Map<String, String> inherited)
            throws IOException {
        String kept = inherited.getOrDefault(CallLog.VARIABLE, "");
        Path calls = kept.isBlank() ? folder.shared() : Path.of(kept).toAbsolutePath();
        evidence = new Evidence(spec, attempt, folder.shared(), calls);
        List<Path> folders = folder.ofRanks(spec.ranks());
        for (int rank = 0; rank < spec.ranks() && !shutdown; rank++) {
            Path scratch = folders.get(rank);
            List<String> command = spec.command().forRank(rank, scratch.resolve("tmp"));
            Programs.require(command.getFirst(), inherited.get("PATH"));
            Map<String, String> environment = new HashMap<>(inherited);
            environment.putAll(job.of(rank, store.port()));
            environment.put("KCP_RESTART", Integer.toString(attempt));
            environment.put(CallLog.VARIABLE, calls.toString());
            workers.add(WorkerProcess.start(
                    rank, command, environment, scratch, tools, spec.grace(), output, wake::release));
        }
    }

    private LaunchResult watch(Suspension clock) {
        long timeoutNanos = spec.timeout().map(Duration::toNanos).orElse(Long.MAX_VALUE);
        long startNanos = clock.nanoTime();
        Optional<HangWatch> hangs =
                spec.hangTimeout().map(limit -> new HangWatch(evidence.calls(), spec.ranks(), limit));
        LastWords lastWords = new LastWords();
        OrphanReaper orphans = ProcessHandle.current().pid() == 1 ? new OrphanReaper() : null;
        while (!allGone()) {
            pause();
            clock.heed();
            if (orphans != null) {
                orphans.reap(WorkerProcess.liveGuards(workers));
            }
            boolean failed = false;
            for (WorkerProcess worker : workers) {
                failed |= worker.poll().filter(RankEnd::failedItself).isPresent();
            }
            if (shutdown) {
                stopAll(Stop.SHUTDOWN);
            } else if (failed) {
                if (!store.wasUsed() || lastWords.areOver(workers, clock.nanoTime())) {
                    stopAll(Stop.FAILURE);
                }
            } else if (outputClosed) {
                stopAll(Stop.OUTPUT_CLOSED);
            } else if (clock.nanoTime() - startNanos > timeoutNanos) {
                if (stop == Stop.NONE) {
                    evidence.takeThreadDumps(workers);
                }
                stopAll(Stop.TIMEOUT);
            } else if (stop == Stop.NONE && hangs.isPresent() && hangs.get().sees(clock.nanoTime())) {
                insideWhenHung = hangs.get().inside();
                evidence.takeThreadDumps(workers);
                stopAll(Stop.HANG);
            }
            killLeftovers();
        }
        awaitOutput();
        return result();
    }

    private LaunchResult result() {
        List<RankEnd> ends =
                workers.stream().map(worker -> worker.poll().orElseThrow()).toList();
        boolean workersOfKcp = spec.failureCode() == LaunchSpec.FailureCode.OF_FIRST_RANK;
        Optional<RankEnd> first =
                FailureReport.firstFailure(ends, workersOfKcp ? ExitCode.RANK_FAILED : -1, rank -> workers.get(rank)
                        .blamed());
        if (shutdown || stop == Stop.SHUTDOWN) {
            return LaunchResult.of(ExitCode.TERMINATED);
        }
        if (stop == Stop.OUTPUT_CLOSED) {
            return LaunchResult.of(ExitCode.OUTPUT_CLOSED);
        }
        if (stop == Stop.TIMEOUT) {
            return failed(ExitCode.DEADLINE, Optional.empty(), spec.timeout().map(Overdue::timeout), ends);
        }
        if (stop == Stop.HANG) {
            Optional<Overdue> hang = spec.hangTimeout().map(limit -> Overdue.hang(limit, insideWhenHung));
            return failed(ExitCode.DEADLINE, Optional.empty(), hang, ends);
        }
        if (first.isEmpty()) {
            return LaunchResult.of(ExitCode.DONE);
        }
        int code = first.get().status().value();
        boolean isKcps = code >= ExitCode.USAGE && code <= ExitCode.MISSING_DEVICE
                || first.get().status().isAskedToEnd();
        boolean keepsCode = workersOfKcp && isKcps;
        return failed(keepsCode ? code : ExitCode.RANK_FAILED, first, Optional.empty(), ends);
    }

    private LaunchResult failed(int exitCode, Optional<RankEnd> first, Optional<Overdue> overdue, List<RankEnd> ends) {
        FailureReport report = evidence.report(workers, ends, first, overdue);
        String text = report.text();
        err.write(text);
        try {
            spec.errorFile().ifPresent(file -> FailureJson.write(file, FailureJson.of(report, exitCode, attempt)));
        } catch (KcpException noRoom) {
            // The ranks' failure came first and keeps its code.
            err.write("kcp: " + Words.line(noRoom.getMessage()) + "\n");
        }
        return new LaunchResult(exitCode, Optional.of(text), overdue.isEmpty());
    }

    private boolean allGone() {
        return workers.stream().allMatch(WorkerProcess::isGone);
    }

    private void stopAll(Stop why) {
        if (stop == Stop.NONE) {
            stop = why;
            stopNanos = System.nanoTime();
            workers.forEach(WorkerProcess::stop);
        }
    }

    private void killLeftovers() {
        if (stop == Stop.NONE) {
            return;
        }
        long overdue = System.nanoTime() - stopNanos - spec.grace().toNanos();
        if (overdue > GUARD_SLACK.toNanos()) {
            workers.stream().filter(worker -> !worker.isGone()).forEach(WorkerProcess::kill);
        }
        if (overdue > 2 * GUARD_SLACK.toNanos()) {
            workers.forEach(WorkerProcess::giveUp);
        }
    }

    /** Ends what still runs where starting or watching threw. */
    private void endAll() {
        while (!allGone()) {
            stopAll(Stop.FAILURE);
            pause();
            workers.forEach(WorkerProcess::poll);
            killLeftovers();
        }
    }

    /** All programs are gone, so what is left in the pipes comes at once, unless the reader of our output is slow. */
    private void awaitOutput() {
        HeldOutput held = new HeldOutput();
        while (!shutdown && !outputClosed) {
            List<WorkerProcess> open =
                    workers.stream().filter(worker -> !worker.isOutputDone()).toList();
            if (open.isEmpty()) {
                return;
            }
            if (held.sees(open.stream().flatMap(WorkerProcess::outputReads).toList())) {
                reportHeldOutput(open);
                return;
            }
            pauseMillis(5);
        }
    }

    private void reportHeldOutput(List<WorkerProcess> holders) {
        List<Integer> ranks = holders.stream().map(WorkerProcess::rank).toList();
        err.write("kcp: a process that left its rank's session still holds the output of rank "
                + FailureReport.listed(ranks) + "; it was not ended\n");
    }

    private void killAtOnce() {
        try {
            ProcessGroups.signal("KILL", WorkerProcess.liveGroups(workers), "");
        } catch (IOException e) {
            // The guards end the ranks once this JVM is gone.
        }
    }

    private void endBeforeTheJvm() {
        shutdown = true;
        wake.release();
        Impatience.heed(this::killAtOnce);
        try {
            err.tryWrite("kcp: interrupted, ending the ranks\n", 100);
            Duration limit = spec.grace().plus(SHUTDOWN_SLACK);
            if (!finished.await(limit.toMillis(), TimeUnit.MILLISECONDS)) {
                return; // The guards go on without this JVM.
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** A guard that is about to be done says so in a file, which wakes nobody. */
    private void pause() {
        boolean isEnding = workers.stream()
                .anyMatch(worker -> !worker.isGone() && worker.poll().isPresent());
        pauseMillis(isEnding ? ENDING_POLL_MILLIS : POLL_MILLIS);
    }

    private void pauseMillis(long millis) {
        try {
            if (wake.tryAcquire(millis, TimeUnit.MILLISECONDS)) {
                wake.drainPermits();
            }
        } catch (InterruptedException e) {
            interrupted = true;
            shutdown = true;
        }
    }
}
