package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.comm.StoreServer;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

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
    private static final long HELD_OUTPUT_NANOS = TimeUnit.SECONDS.toNanos(1);

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
    private final List<WorkerProcess> workers = new ArrayList<>();
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
        ReentrantLock lock = new ReentrantLock();
        OutputSink out = new OutputSink(stdout, lock, this::endWithoutReader);
        this.err = new OutputSink(stderr, lock, e -> lose("standard error", e));
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
        Path setsid = Programs.setsid(System.getenv("PATH"));
        output.prepare();
        Thread hook = new Thread(this::endBeforeTheJvm, "kcp-agent-shutdown");
        Runtime.getRuntime().addShutdownHook(hook);
        try (JobFolder folder = new JobFolder();
                MasterPort masterPort = MasterPort.claim()) {
            JobEnvironment job = JobEnvironment.create(spec.ranks(), masterPort.number());
            try (StoreServer opened = StoreServer.start(JobEnvironment.LOOPBACK, 0, job.jobId(), job.secret())) {
                store = opened;
                return runIn(folder, job, setsid, inherited);
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

    private LaunchResult runIn(JobFolder folder, JobEnvironment job, Path setsid, Map<String, String> inherited) {
        try {
            startAll(folder, job, setsid, inherited);
            return watch();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot start ranks: started=" + workers.size(), e);
        } finally {
            endAll();
            workers.forEach(WorkerProcess::release);
        }
    }

    private void startAll(JobFolder folder, JobEnvironment job, Path setsid, Map<String, String> inherited)
            throws IOException {
        String kept = inherited.getOrDefault(CallLog.VARIABLE, "");
        Path calls = kept.isBlank() ? folder.shared() : Path.of(kept).toAbsolutePath();
        evidence = new Evidence(spec, attempt, folder.shared(), calls);
        for (int rank = 0; rank < spec.ranks() && !shutdown; rank++) {
            Path scratch = folder.ofRank(rank);
            List<String> command = spec.command().forRank(rank, Files.createDirectory(scratch.resolve("tmp")));
            Programs.require(command.getFirst(), inherited.get("PATH"));
            Map<String, String> environment = new HashMap<>(inherited);
            environment.putAll(job.of(rank, store.port()));
            environment.put("KCP_RESTART", Integer.toString(attempt));
            environment.put(CallLog.VARIABLE, calls.toString());
            workers.add(WorkerProcess.start(
                    rank, command, environment, scratch, setsid, spec.grace(), output, wake::release));
        }
    }

    private LaunchResult watch() {
        long timeoutNanos = spec.timeout().map(Duration::toNanos).orElse(Long.MAX_VALUE);
        long startNanos = System.nanoTime();
        Optional<HangWatch> hangs =
                spec.hangTimeout().map(limit -> new HangWatch(evidence.calls(), spec.ranks(), limit));
        LastWords lastWords = new LastWords();
        while (!allGone()) {
            pause();
            boolean failed = false;
            for (WorkerProcess worker : workers) {
                failed |= worker.poll().filter(RankEnd::failedItself).isPresent();
            }
            if (shutdown) {
                stopAll(Stop.SHUTDOWN);
            } else if (failed) {
                if (!store.wasUsed() || lastWords.areOver(workers, System.nanoTime())) {
                    stopAll(Stop.FAILURE);
                }
            } else if (outputClosed) {
                stopAll(Stop.OUTPUT_CLOSED);
            } else if (System.nanoTime() - startNanos > timeoutNanos) {
                if (stop == Stop.NONE) {
                    evidence.takeThreadDumps(workers);
                }
                stopAll(Stop.TIMEOUT);
            } else if (stop == Stop.NONE && hangs.isPresent() && hangs.get().sees(System.nanoTime())) {
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
        Optional<RankEnd> first = FailureReport.firstFailure(ends, workersOfKcp ? ExitCode.RANK_FAILED : -1);
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
        boolean keepsCode = workersOfKcp && code >= ExitCode.USAGE && code <= ExitCode.MISSING_DEVICE;
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
            err.write("kcp: " + noRoom.getMessage() + "\n");
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
        while (!shutdown && !outputClosed) {
            List<WorkerProcess> open =
                    workers.stream().filter(worker -> !worker.isOutputDone()).toList();
            if (open.isEmpty()) {
                return;
            }
            if (open.stream().allMatch(worker -> worker.isOutputHeld(HELD_OUTPUT_NANOS))) {
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

    private void endBeforeTheJvm() {
        shutdown = true;
        wake.release();
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
