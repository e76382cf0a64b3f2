package dev.kcp.launcher;

import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;

/**
 * One rank: its program, alone in a session and process group, under a guard (see guard.sh) that ends the group when
 * the launcher closes the guard's stdin or dies. Used by the agent's thread only.
 */
final class WorkerProcess {
    /** The files in which a guard notes the program's pid, its status, and that its group is over. */
    static final List<String> NOTES = List.of("pid", "status", "over");

    /** A note is a number and a newline; what follows is room. */
    static final int NOTE_BYTES = 16;

    private static final String GUARD = guardScript();

    private final int rank;
    private final Path scratch;
    private final Duration grace;
    private final Process guard;
    private final OutputPump stdout;
    private final OutputPump stderr;
    private final OutputTail lastLines;
    private Instant stoppedAt;
    private RankEnd end;
    /** The guard was killed before its program ended; its watcher ends the program. */
    private boolean guardLost;

    private boolean groupOver;

    private WorkerProcess(
            int rank,
            Path scratch,
            Duration grace,
            Process guard,
            OutputPump stdout,
            OutputPump stderr,
            OutputTail lastLines) {
        this.rank = rank;
        this.scratch = scratch;
        this.grace = grace;
        this.guard = guard;
        this.stdout = stdout;
        this.stderr = stderr;
        this.lastLines = lastLines;
    }

    /**
     * Starts one rank.
     *
     * @param environment all of the rank's environment
     * @param scratch a folder of this rank, with its {@link #NOTES}
     * @param tools what guards are made of
     * @param output takes the rank's two pipes
     * @param onExit called from other threads when an output or the guard has ended
     * @throws IOException if the operating system starts no further process
     */
    static WorkerProcess start(
            int rank,
            List<String> command,
            Map<String, String> environment,
            Path scratch,
            GuardTools tools,
            Duration grace,
            OutputRouting output,
            Runnable onExit)
            throws IOException {
        long graceTenths = Math.ceilDiv(grace.toMillis(), 100);
        List<String> guarded = new ArrayList<>(tools.session());
        guarded.addAll(List.of(
                "/bin/sh",
                "-c",
                GUARD,
                "kcp-guard",
                Long.toString(graceTenths),
                scratch.toString(),
                Long.toString(ProcessHandle.current().pid())));
        guarded.addAll(tools.boundSession());
        guarded.addAll(StandardInput.given(rank, command));
        ProcessBuilder builder = new ProcessBuilder(guarded);
        setVariables(builder.environment(), environment);
        Process guard = started(builder);
        OutputTail lastLines = new OutputTail();
        try {
            WorkerProcess worker = new WorkerProcess(
                    rank,
                    scratch,
                    grace,
                    guard,
                    output.stdout(rank, guard.getInputStream()),
                    output.stderr(rank, guard.getErrorStream(), lastLines),
                    lastLines);
            worker.stdout.onEnd(onExit);
            worker.stderr.onEnd(onExit);
            guard.onExit().thenRun(onExit);
            return worker;
        } catch (IOException noLog) {
            guard.getOutputStream().close(); // its guard ends the program
            throw noLog;
        }
    }

    /** Leaves values alone that are as they should be: this process's own may be no text, which only they keep. */
    private static void setVariables(Map<String, String> own, Map<String, String> wanted) {
        own.keySet().retainAll(wanted.keySet());
        wanted.forEach((name, value) -> {
            if (!value.equals(own.get(name))) {
                own.put(name, value);
            }
        });
    }

    /** The JDK buries the reason among its own guesses. */
    private static Process started(ProcessBuilder builder) throws IOException {
        try {
            return builder.start();
        } catch (IOException e) {
            throw FileFailures.isOutOfFiles() ? new IOException(FileFailures.OUT_OF_FILES, e) : e;
        }
    }

    int rank() {
        return rank;
    }

    /** How the program ended, if it has; the guard may still be ending what the program left behind. */
    Optional<RankEnd> poll() {
        if (end == null) {
            boolean guardGone = !guard.isAlive();
            Optional<String> written = line("status");
            if (written.isPresent()) {
                end = ended(new ExitStatus(Integer.parseInt(written.get())), modified("status"));
            } else if (guardGone) {
                guardLost = true;
                end = ended(new ExitStatus(guard.exitValue()), Instant.now());
            }
        }
        return Optional.ofNullable(end);
    }

    /** Whether the program and its group have ended, and the guard has nothing left to do. */
    boolean isGone() {
        return end != null && (end.cause() == RankEnd.Cause.STUCK || isGroupOver());
    }

    private boolean isGroupOver() {
        groupOver = groupOver || (guard.isAlive() ? line("over").isPresent() : !(guardLost && programLives()));
        return groupOver;
    }

    /** Lets the guard go, once all output was read; may be called again. */
    void release() {
        closeGuardInput();
    }

    /** Has the guard end the group: SIGTERM, and SIGKILL after the grace. Returns at once; may be called again. */
    void stop() {
        poll();
        if (stoppedAt == null) {
            stoppedAt = Instant.now();
            closeGuardInput();
        }
    }

    /** Last resort where the guard did not end the group. */
    void kill() {
        guard.descendants().forEach(ProcessHandle::destroyForcibly);
        guard.destroyForcibly();
        OptionalLong program = programPid();
        if (program.isPresent()) {
            try {
                ProcessGroups.signal("KILL", List.of(program.getAsLong()), "");
            } catch (IOException e) {
                throw new UncheckedIOException("cannot end rank " + rank, e);
            }
        }
    }

    /** Gives up on a rank that outlives SIGKILL. */
    void giveUp() {
        if (!isGone()) {
            end = new RankEnd(rank, pid(), new ExitStatus(137), Instant.now(), RankEnd.Cause.STUCK);
        }
    }

    /** Whether all output has been passed on. */
    boolean isOutputDone() {
        return stdout.isDone() && stderr.isDone();
    }

    /** {@link OutputPump#reads} of the outputs that have not ended. */
    Stream<Long> outputReads() {
        return Stream.of(stdout, stderr).filter(pump -> !pump.isDone()).map(OutputPump::reads);
    }

    private RankEnd ended(ExitStatus status, Instant at) {
        boolean byLauncher = stoppedAt != null
                && switch (status.signal().orElse("")) {
                    case "SIGTERM" -> true;
                    // Before the grace is over, a SIGKILL is somebody else's.
                    case "SIGKILL" -> !at.isBefore(stoppedAt.plus(grace).minusMillis(50));
                    default -> false;
                };
        return new RankEnd(rank, pid(), status, at, byLauncher ? RankEnd.Cause.LAUNCHER : RankEnd.Cause.OWN);
    }

    private long pid() {
        return programPid().orElse(guard.pid());
    }

    /** The end of the rank's stderr so far. */
    List<String> lastLines() {
        return lastLines.lines();
    }

    /** The rank that its last words name as the one that failed. */
    OptionalInt blamed() {
        return Blame.of(rank, lastLines());
    }

    /** The program's process id, which is its process group's too; empty where it is not known yet. */
    OptionalLong programPid() {
        return line("pid").map(text -> OptionalLong.of(Long.parseLong(text))).orElse(OptionalLong.empty());
    }

    /** Whether the program is there and no zombie, which waits for its reaper only. */
    private boolean programLives() {
        OptionalLong pid = programPid();
        return pid.isPresent()
                && ProcessStat.of(pid.getAsLong())
                        .filter(program -> !program.isZombie())
                        .isPresent();
    }

    /** The programs' process groups, as long as their guards have not seen them end; asked from any thread. */
    static List<Long> liveGroups(List<WorkerProcess> workers) {
        List<Long> groups = new ArrayList<>();
        for (WorkerProcess worker : workers) {
            if (worker.line("over").isEmpty()) {
                worker.programPid().ifPresent(groups::add);
            }
        }
        return groups;
    }

    /** Process ids of the guards that the JVM has not seen end. */
    static List<Long> liveGuards(List<WorkerProcess> workers) {
        return workers.stream()
                .filter(worker -> worker.guard.isAlive())
                .map(worker -> worker.guard.pid())
                .toList();
    }

    /** The one line of a note, if it has been written to its end. */
    private Optional<String> line(String name) {
        try {
            String text = Files.readString(scratch.resolve(name), StandardCharsets.US_ASCII);
            int end = text.indexOf('\n');
            return end < 0 ? Optional.empty() : Optional.of(text.substring(0, end));
        } catch (NoSuchFileException removed) {
            return Optional.empty();
        } catch (IOException e) {
            // As where too many files are open: without the note nobody would see the rank end.
            throw new UncheckedIOException("cannot read what the guard of rank " + rank + " noted", e);
        }
    }

    private Instant modified(String name) {
        try {
            return Files.getLastModifiedTime(scratch.resolve(name)).toInstant();
        } catch (IOException gone) {
            return Instant.now();
        }
    }

    private void closeGuardInput() {
        try {
            guard.getOutputStream().close();
        } catch (IOException alreadyGone) {
            // The guard has ended; there is nobody to tell.
        }
    }

    private static String guardScript() {
        try (InputStream in = WorkerProcess.class.getResourceAsStream("guard.sh")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
