package dev.kcp.launcher;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What to start and how to end it; frozen before the first rank starts.
 *
 * @param ranks world size, at least 1; all on this machine
 * @param command makes the command line of one rank
 * @param environment variables for every rank beside those of {@link JobEnvironment}
 * @param grace time between SIGTERM and SIGKILL when the job is ended
 * @param timeout longest time for the whole job, restarts included, empty for none
 * @param hangTimeout how long no rank may complete a collective call while one is inside one, empty for any time
 * @param output where the ranks' output goes
 * @param failureCode which exit code a failing rank gives the job
 * @param maxRestarts how often all ranks are started again after one has failed
 * @param errorFile where a failure is written as JSON, if anywhere
 */
public record LaunchSpec(
        int ranks,
        RankCommand command,
        Map<String, String> environment,
        Duration grace,
        Optional<Duration> timeout,
        Optional<Duration> hangTimeout,
        OutputPlan output,
        FailureCode failureCode,
        int maxRestarts,
        Optional<Path> errorFile) {

    /** More ranks than this on one machine are taken for a slip of the finger. */
    public static final int MAX_RANKS = 4096;

    private static final Duration GRACE = Duration.ofSeconds(5);

    /** Makes the command line of one rank. */
    @FunctionalInterface
    public interface RankCommand {
        /**
         * The command line of one rank.
         *
         * @param scratch an existing empty folder of this rank, removed when the rank has ended
         * @return program and arguments; a program without a slash is looked up on PATH
         */
        List<String> forRank(int rank, Path scratch);
    }

    /** Which exit code a failing rank gives the job. */
    public enum FailureCode {
        /** Always 5; the rank's own code says nothing about kcp. */
        ALWAYS_RANK_FAILED,
        /** The code of the first failing rank where that is 2 to 8, as kcp's own workers end; otherwise 5. */
        OF_FIRST_RANK
    }

    /**
     * @throws IllegalArgumentException if a number is out of range, no rank is shown, or a variable is the launcher's own
     */
    public LaunchSpec {
        if (ranks < 1 || ranks > MAX_RANKS) {
            throw new IllegalArgumentException("ranks must be from 1 to " + MAX_RANKS + ": n=" + ranks);
        }
        if (grace.isNegative()) {
            throw new IllegalArgumentException("grace must not be negative: grace=" + grace);
        }
        if (timeout.isPresent() && !timeout.get().isPositive()) {
            throw new IllegalArgumentException("timeout must be positive: timeout=" + timeout.get());
        }
        if (hangTimeout.isPresent() && !hangTimeout.get().isPositive()) {
            throw new IllegalArgumentException("hang timeout must be positive: hang-timeout=" + hangTimeout.get());
        }
        if (maxRestarts < 0) {
            throw new IllegalArgumentException("restarts must not be negative: max-restarts=" + maxRestarts);
        }
        if (!output.shown().meets(ranks)) {
            throw new IllegalArgumentException("--filter-ranks names no rank of this job: filter-ranks="
                    + output.shown().text() + " n=" + ranks);
        }
        environment = Map.copyOf(environment);
        for (String name : environment.keySet()) {
            if (name.isEmpty() || name.indexOf('=') >= 0 || name.indexOf('\0') >= 0) {
                throw new IllegalArgumentException("not the name of an environment variable: name=" + name);
            }
        }
        Set<String> taken = new java.util.TreeSet<>(environment.keySet());
        taken.retainAll(JobEnvironment.NAMES);
        if (!taken.isEmpty()) {
            throw new IllegalArgumentException("the launcher sets these environment variables itself: names=" + taken);
        }
    }

    /** {@code ranks} ranks of any program, as {@code kcp run} starts them. */
    public static LaunchSpec program(int ranks, List<String> command) {
        List<String> frozen = List.copyOf(command);
        if (frozen.isEmpty() || frozen.getFirst().isEmpty()) {
            throw new IllegalArgumentException("no program: command=" + frozen);
        }
        return new LaunchSpec(
                ranks,
                (rank, scratch) -> frozen,
                Map.of(),
                GRACE,
                Optional.empty(),
                Optional.empty(),
                OutputPlan.console(OutputPlan.Style.PREFIXED),
                FailureCode.ALWAYS_RANK_FAILED,
                0,
                Optional.empty());
    }

    /** {@code ranks} workers that run a {@code kcp} command in JVMs like this one; see {@link WorkerCommand}. */
    public static LaunchSpec workers(int ranks, List<String> kcpArguments) {
        return new LaunchSpec(
                ranks,
                WorkerCommand.ofThisJvm(kcpArguments),
                Map.of(),
                GRACE,
                Optional.empty(),
                Optional.empty(),
                OutputPlan.console(OutputPlan.Style.RANK0_STDOUT_RAW),
                FailureCode.OF_FIRST_RANK,
                0,
                Optional.empty());
    }

    /** The same job with another command line for each rank. */
    public LaunchSpec withCommand(RankCommand newCommand) {
        return new LaunchSpec(
                ranks,
                newCommand,
                environment,
                grace,
                timeout,
                hangTimeout,
                output,
                failureCode,
                maxRestarts,
                errorFile);
    }

    /**
     * The same job with these variables, in place of those before.
     *
     * @throws IllegalArgumentException if the launcher itself sets one of them, such as {@code RANK}
     */
    public LaunchSpec withEnvironment(Map<String, String> variables) {
        return new LaunchSpec(
                ranks, command, variables, grace, timeout, hangTimeout, output, failureCode, maxRestarts, errorFile);
    }

    /** The same job with another time between SIGTERM and SIGKILL; zero kills at once. */
    public LaunchSpec withGrace(Duration newGrace) {
        return new LaunchSpec(
                ranks,
                command,
                environment,
                newGrace,
                timeout,
                hangTimeout,
                output,
                failureCode,
                maxRestarts,
                errorFile);
    }

    /** The same job, ended with {@code DEADLINE} if it runs longer, restarts included. */
    public LaunchSpec withTimeout(Duration newTimeout) {
        return new LaunchSpec(
                ranks,
                command,
                environment,
                grace,
                Optional.of(newTimeout),
                hangTimeout,
                output,
                failureCode,
                maxRestarts,
                errorFile);
    }

    /**
     * The same job, ended with {@code DEADLINE} if for so long no rank completes a collective call while one is inside one.
     */
    public LaunchSpec withHangTimeout(Duration limit) {
        return new LaunchSpec(
                ranks,
                command,
                environment,
                grace,
                timeout,
                Optional.of(limit),
                output,
                failureCode,
                maxRestarts,
                errorFile);
    }

    /** The same job with its ranks' output elsewhere. */
    public LaunchSpec withOutput(OutputPlan plan) {
        return new LaunchSpec(
                ranks, command, environment, grace, timeout, hangTimeout, plan, failureCode, maxRestarts, errorFile);
    }

    /** The same job, all of whose ranks are started again up to so often when one fails. */
    public LaunchSpec withMaxRestarts(int restarts) {
        return new LaunchSpec(
                ranks, command, environment, grace, timeout, hangTimeout, output, failureCode, restarts, errorFile);
    }

    /** The same job, whose failure is written to this file as JSON. */
    public LaunchSpec withErrorFile(Path file) {
        return new LaunchSpec(
                ranks,
                command,
                environment,
                grace,
                timeout,
                hangTimeout,
                output,
                failureCode,
                maxRestarts,
                Optional.of(file));
    }
}
