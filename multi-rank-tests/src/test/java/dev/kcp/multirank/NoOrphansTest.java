package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Whatever dies first, nothing of the job stays and nothing else is touched. */
@Execution(ExecutionMode.CONCURRENT)
class NoOrphansTest {
    private static final String STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1; done";

    private static KcpProcess start(int ranks, String script) {
        return KcpProcess.start("run", "-n", "" + ranks, "--grace", "1", "--", "/bin/sh", "-c", script);
    }

    private static void awaitReady(KcpProcess kcp, int ranks) {
        Eventually.reach(
                "all ranks are ready",
                () -> kcp.out().lines().filter(line -> line.endsWith("ready")).count() == ranks);
    }

    private static void assertNobodyLeft(KcpProcess kcp) {
        Eventually.atMost("processes left", 0, () -> kcp.processes().size());
    }

    private static void signal(String name, long pid) {
        signal(name, List.of(pid));
    }

    private static void signal(String name, List<Long> pids) {
        String words = pids.stream().map(pid -> " " + pid).collect(Collectors.joining());
        try {
            new ProcessBuilder("/bin/sh", "-c", "kill -s " + name + " --" + words)
                    .start()
                    .waitFor();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The program itself: of a rank's processes the last that was started. */
    private static LiveProcesses.Found program(KcpProcess kcp, int rank) {
        return kcp.processes().stream()
                .filter(found -> found.isRank(rank))
                .toList()
                .getLast();
    }

    @Test
    void killedRankEndsTheJobAndIsNamed() {
        try (KcpProcess kcp = start(3, "echo ready; exec sleep 300")) {
            awaitReady(kcp, 3);
            LiveProcesses.Found program = program(kcp, 1);
            assertThat(program.command()).isEqualTo("sleep 300");
            signal("KILL", program.pid());
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).isEqualTo(5);
            assertThat(result.err()).startsWith("kcp: rank 1 was ended by SIGKILL (signal 9)");
            assertThat(result.err().lines().findFirst().orElseThrow()).endsWith(" pid=" + program.pid());
            assertNobodyLeft(kcp);
        }
    }

    /** Case 81: no hook runs, and all end. */
    @Test
    void killedLauncherLeavesNobodyAndNoFolder() {
        try (KcpProcess kcp = start(3, "echo $KCP_CALLS_DIR; " + STUBBORN)) {
            awaitReady(kcp, 3);
            Path shared = Path.of(kcp.out().lines().findFirst().orElseThrow().replaceFirst("\\[rank \\d] ", ""));
            assertThat(shared.getParent()).isDirectory();
            signal("KILL", kcp.pid());
            assertNobodyLeft(kcp);
            assertThat(shared.getParent()).doesNotExist();
        }
    }

    /** As timeout -s KILL does, and a shell's kill -9 %1. */
    @Test
    void killedProcessGroupOfTheLauncherLeavesNobody() {
        try (KcpProcess kcp = KcpProcess.startThrough(
                List.of("setsid"), List.of(), "run", "-n", "2", "--grace", "1", "--", "/bin/sh", "-c", STUBBORN)) {
            awaitReady(kcp, 2);
            signal("KILL", -kcp.pid());
            assertNobodyLeft(kcp);
        }
    }

    @Test
    void killedLauncherGuardsAndWatchersLeaveNoProgram() throws IOException {
        Path setpriv = Path.of("/usr/bin/setpriv");
        assumeTrue(Files.exists(setpriv)
                && Files.readString(setpriv, StandardCharsets.ISO_8859_1).contains("pdeathsig"));
        try (KcpProcess kcp = start(2, "echo ready; exec sleep 300")) {
            awaitReady(kcp, 2);
            List<Long> others = new ArrayList<>(kcp.processes().stream()
                    .filter(found -> !found.command().equals("sleep 300"))
                    .map(LiveProcesses.Found::pid)
                    .toList());
            assertThat(others).hasSize(5);
            // Watchers before the launcher: none is to see it go.
            signal("KILL", others.reversed());
            assertNobodyLeft(kcp);
        }
    }

    @Test
    void killedGuardLeavesNobody() {
        try (KcpProcess kcp = start(2, STUBBORN)) {
            awaitReady(kcp, 2);
            LiveProcesses.Found guard = kcp.processes().stream()
                    .filter(found -> found.isRank(1))
                    .findFirst()
                    .orElseThrow();
            assertThat(guard.command()).contains("kcp-guard");
            signal("KILL", guard.pid());
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).isEqualTo(5);
            assertThat(result.err()).startsWith("kcp: rank 1 was ended by SIGKILL");
            assertNobodyLeft(kcp);
        }
    }

    @Test
    void killedGuardOfARankWithoutOutputLeavesNobody() {
        // Nothing but the program's life holds the launcher, so it must not clear up before the watcher has read.
        try (KcpProcess kcp = start(1, "trap '' TERM; echo ready; exec >/dev/null 2>&1; while :; do sleep 1; done")) {
            awaitReady(kcp, 1);
            signal(
                    "KILL",
                    kcp.processes().stream()
                            .filter(found -> found.isRank(0))
                            .findFirst()
                            .orElseThrow()
                            .pid());
            assertThat(kcp.await().exitCode()).isEqualTo(5);
            assertNobodyLeft(kcp);
        }
    }

    @ParameterizedTest
    @CsvSource({"TERM, 143", "INT, 130", "HUP, 129"})
    void signalToTheLauncherEndsStubbornRanks(String signal, int code) {
        try (KcpProcess kcp = start(2, STUBBORN)) {
            awaitReady(kcp, 2);
            signal(signal, kcp.pid());
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).isEqualTo(code);
            assertThat(result.err()).isEqualTo("kcp: interrupted, ending the ranks\n");
            assertNobodyLeft(kcp);
        }
    }

    @Test
    void ranksThatIgnoreTermAreKilledAfterTheGrace() {
        try (KcpProcess kcp = start(3, "if [ $RANK = 2 ]; then sleep 0.5; exit 4; fi; " + STUBBORN)) {
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).isEqualTo(5);
            assertThat(result.err())
                    .startsWith("kcp: rank 2 exited with code 4")
                    .contains("kcp:   ranks 0, 1 ended by kcp with SIGKILL\n");
            assertNobodyLeft(kcp);
        }
    }

    /** Case 80: what ranks started ends with them. */
    @Test
    void grandchildrenGoToo() {
        String tree = "(trap '' TERM; sh -c 'sleep 301 & sleep 302' & while :; do sleep 1; done) & echo ready; ";
        try (KcpProcess kcp = start(2, tree + "if [ $RANK = 0 ]; then sleep 0.5; exit 1; fi; wait")) {
            awaitReady(kcp, 2);
            assertThat(kcp.await().exitCode()).isEqualTo(5);
            assertNobodyLeft(kcp);
        }
    }

    @Test
    void grandchildrenOfARankThatEndedWellGoToo() {
        try (KcpProcess kcp = start(1, "sleep 303 & echo ready")) {
            assertThat(kcp.await().exitCode()).isZero();
            assertNobodyLeft(kcp);
        }
    }

    /** Case 82: a hook that never ends is cut short. */
    @Test
    void shutdownHookThatSleepsForAnHourHoldsNobody() {
        List<String> command = new ArrayList<>(List.of("run", "-n", "2", "--grace", "1", "--"));
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), SleepyHook.class.getName()));
        try (KcpProcess kcp = KcpProcess.start(command.toArray(String[]::new))) {
            awaitReady(kcp, 2);
            signal("TERM", kcp.pid());
            assertThat(kcp.await().exitCode()).isEqualTo(143);
            assertNobodyLeft(kcp);
        }
    }

    /** A rank whose end takes an hour unless it is killed. */
    static final class SleepyHook {
        private SleepyHook() {}

        public static void main(String[] args) throws InterruptedException {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                try {
                    Thread.sleep(Duration.ofHours(1));
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }));
            System.out.println("ready");
            Thread.sleep(Duration.ofHours(1));
        }
    }

    @Test
    void escapedProcessHoldsNobodyUpAndIsReported(@TempDir Path folder) {
        // A child that has not left yet when its parent ends is ended with the group.
        String left = folder.resolve("left").toString();
        String escape = "setsid sh -c ': > " + left + "; exec sleep 304' & " + "while [ ! -e " + left
                + " ]; do sleep 0.02; done; echo ready";
        try (KcpProcess kcp = start(1, escape)) {
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).isZero();
            assertThat(result.err()).contains("left its rank's session").contains("rank 0");
        }
    }

    @Test
    void tooFewOpenFilesAreNamedAndLeaveNobody() {
        List<String> fewFiles = List.of("/bin/sh", "-c", "ulimit -n 120; exec \"$@\"", "shell");
        try (KcpProcess kcp =
                KcpProcess.startThrough(fewFiles, List.of(), "run", "-n", "60", "--grace", "1", "--", "sleep", "300")) {
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).isEqualTo(1);
            assertThat(result.err())
                    .startsWith("kcp: cannot start ranks: started=")
                    .endsWith(" cause=too many open files (ulimit -n)\n");
            assertNobodyLeft(kcp);
        }
    }

    /** Case 79: ending a job touches nothing else. */
    @Test
    void otherProcessesOfTheUserLive() throws Exception {
        Process mine = new ProcessBuilder("sleep", "305").start();
        try (KcpProcess kcp = start(2, "sleep 0.2; exit 1")) {
            assertThat(kcp.await().exitCode()).isEqualTo(5);
            assertThat(LiveProcesses.isAlive(mine.pid())).isTrue();
            assertThat(LiveProcesses.isAlive(ProcessHandle.current().pid())).isTrue();
        } finally {
            mine.destroyForcibly().waitFor();
        }
    }

    @Test
    void closedStdoutEndsAnEndlessJob() throws Exception {
        String java = ProcessHandle.current().info().command().orElseThrow();
        Process shell = new ProcessBuilder(
                        "/bin/sh",
                        "-c",
                        "{ \"$0\" -cp \"$1\" dev.kcp.launcher.Main run -n 1 --grace 1 -- yes; echo \"code $?\" >&2; }"
                                + " | head -n 1",
                        java,
                        System.getProperty("java.class.path"))
                .start();
        try {
            assertThat(shell.waitFor(Eventually.LIMIT)).isTrue();
            assertThat(new String(shell.getInputStream().readAllBytes())).isEqualTo("[rank 0] y\n");
            assertThat(new String(shell.getErrorStream().readAllBytes())).endsWith("code 141\n");
        } finally {
            shell.descendants().forEach(ProcessHandle::destroyForcibly);
            shell.destroyForcibly();
        }
    }
}
