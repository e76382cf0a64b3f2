package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

/** What a terminal and a container ask of the first process of a job: Ctrl-C twice, Ctrl-Z, orphans. */
class TerminalSignalsTest {
    private static final String STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1; done";

    private static void signal(String name, long pid) {
        try {
            new ProcessBuilder("/bin/sh", "-c", "kill -s " + name + " " + pid)
                    .start()
                    .waitFor();
        } catch (IOException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void awaitReady(KcpProcess kcp) {
        Eventually.reach(
                "both ranks are ready",
                () -> kcp.out().lines().filter(line -> line.endsWith("ready")).count() == 2);
    }

    @Test
    void secondInterruptEndsStubbornRanksAtOnce() {
        // Far longer than this test waits.
        try (KcpProcess kcp =
                KcpProcess.start("run", "-n", "2", "--grace", "100000", "--", "/bin/sh", "-c", STUBBORN)) {
            awaitReady(kcp);
            Eventually.reach("the end", () -> {
                signal("INT", kcp.pid());
                return !kcp.isAlive();
            });
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).isEqualTo(130);
            assertThat(result.err()).isEqualTo("kcp: interrupted, ending the ranks\n");
            Eventually.atMost("processes left", 0, () -> kcp.processes().size());
        }
    }

    @Test
    void suspendedLauncherStopsItsRanksAndContinuesThem() {
        // timeout gives itself and its child a process group, in the session of a shell: as a job of an interactive
        // one.
        List<String> jobControl = List.of("setsid", "/bin/sh", "-c", "timeout 600 \"$@\"; exit $?", "shell");
        try (KcpProcess kcp = KcpProcess.startThrough(
                jobControl, List.of(), "run", "-n", "2", "--grace", "1", "--", "/bin/sh", "-c", STUBBORN)) {
            awaitReady(kcp);
            String java = ProcessHandle.current().info().command().orElseThrow();
            long launcher = first(
                    kcp, found -> found.rank().isEmpty() && found.command().startsWith(java));
            List<Long> job = new ArrayList<>(List.of(launcher));
            for (int rank = 0; rank < 2; rank++) {
                int wanted = rank;
                job.add(first(
                        kcp,
                        found -> found.isRank(wanted)
                                && found.command().contains("echo ready")
                                && !found.command().contains("kcp-guard")));
            }
            // A job that has just begun does not heed it yet: the launcher alone stops, and is continued.
            Eventually.reach("all are stopped", () -> {
                signal("CONT", launcher);
                signal("TSTP", launcher);
                Eventually.reach("the launcher is stopped", () -> state(launcher) == 'T');
                return job.stream().allMatch(pid -> state(pid) == 'T');
            });
            signal("CONT", launcher);
            Eventually.reach("all go on", () -> job.stream().allMatch(pid -> state(pid) == 'S'));
            signal("TERM", launcher);
            assertThat(kcp.await().exitCode()).isEqualTo(143);
            Eventually.atMost("processes left", 0, () -> kcp.processes().size());
        }
    }

    /** The first that was started: a child between its fork and its program has its parent's command line. */
    private static long first(KcpProcess kcp, Predicate<LiveProcesses.Found> wanted) {
        return kcp.processes().stream().filter(wanted).findFirst().orElseThrow().pid();
    }

    private static char state(long pid) {
        try {
            String stat = Files.readString(Path.of("/proc/" + pid + "/stat"), StandardCharsets.ISO_8859_1);
            return stat.charAt(stat.lastIndexOf(')') + 2);
        } catch (IOException gone) {
            return 'X';
        }
    }

    @Test
    void firstProcessOfAContainerCollectsOrphans() throws Exception {
        List<String> container = List.of("unshare", "--pid", "--fork", "--mount-proc", "--map-root-user");
        List<String> tried = new ArrayList<>(container);
        tried.add("true");
        assumeTrue(new ProcessBuilder(tried).start().waitFor() == 0);
        String orphan = "f=$KCP_CALLS_DIR/orphan; (/bin/sh -c 'echo $$; exec sleep 0.1' >\"$f\" &); "
                + "until read -r pid <\"$f\"; do sleep 0.02; done; while [ -e \"/proc/$pid\" ]; do sleep 0.02; done; "
                + "echo \"collected by $PPID\"";
        try (KcpProcess kcp =
                KcpProcess.startThrough(container, List.of(), "run", "-n", "1", "--", "/bin/sh", "-c", orphan)) {
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).as(result.err()).isZero();
            assertThat(result.out()).startsWith("[rank 0] collected by ");
        }
    }
}
