package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.conv.Eventually;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Jobs as {@code kcp train} and {@code kcp conv} start them, with small shell programs for workers. */
class LocalAgentTest {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    private static LaunchSpec workers(int ranks, String script) {
        return LaunchSpec.workers(ranks, List.of())
                .withCommand((rank, scratch) -> List.of("/bin/sh", "-c", script, "worker", scratch.toString()))
                .withGrace(Eventually.LIMIT);
    }

    private LaunchResult run(LaunchSpec spec) {
        return LocalAgent.run(spec, out, err);
    }

    private String out() {
        return out.toString(StandardCharsets.UTF_8);
    }

    private String err() {
        return err.toString(StandardCharsets.UTF_8);
    }

    @ParameterizedTest
    @CsvSource({
        "0, 0",
        "1, 5",
        "2, 2",
        "3, 3",
        "4, 4",
        "5, 5",
        "6, 6",
        "7, 7",
        "8, 8",
        "9, 5",
        "137, 5",
        "130, 130",
        "143, 143"
    })
    void workersOwnCodesAreTheJobs(int worker, int job) {
        LaunchResult result = run(workers(2, "[ $RANK = 0 ] || exit " + worker));
        assertThat(result.exitCode()).isEqualTo(job);
        assertThat(result.failure().isPresent()).isEqualTo(job != 0);
        assertThat(err()).isEqualTo(result.failure().orElse(""));
    }

    @Test
    void newsOfADeathIsNotTheCause(@TempDir Path folder) {
        // Rank 0 hears of a death and ends with 5 before the rank that died is gone.
        String dying = folder.resolve("dying").toString();
        LaunchResult result = run(workers(
                2,
                "if [ $RANK = 0 ]; then while [ ! -e " + dying + " ]; do sleep 0.02; done; exit 5; fi; "
                        + "trap '' TERM; : > " + dying + "; sleep 0.3; kill -KILL $$"));
        assertThat(result.exitCode()).isEqualTo(5);
        assertThat(err()).startsWith("kcp: rank 1 was ended by SIGKILL").contains("rank 0 exited with code 5");
    }

    @Test
    void rankZeroOwnsStdoutByteByByte() {
        LaunchResult result =
                run(workers(2, "printf '\\r50%%'; echo chat >&2; echo 'WARNING: Using incubator modules: x' >&2"));
        assertThat(result.exitCode()).isZero();
        assertThat(out()).isEqualTo("\r50%");
        assertThat(err().split("\n"))
                .containsExactlyInAnyOrder(
                        "[rank 1] \r[rank 1] 50%",
                        "[rank 0] chat",
                        "[rank 1] chat",
                        "[rank 0] WARNING: Using incubator modules: x",
                        "[rank 1] WARNING: Using incubator modules: x");
    }

    @Test
    void processThatLeftItsRanksSessionAndHoldsItsOutputIsSaid() {
        LaunchResult result = run(workers(
                2,
                "[ $RANK = 0 ] && exit; setsid /bin/sh -c ': > \"$0/held\"; exec sleep 300' \"$1\" & "
                        + "while [ ! -e \"$1/held\" ]; do sleep 0.02; done; echo $!"));
        assertThat(result.exitCode()).isZero();
        assertThat(err())
                .endsWith(
                        "kcp: a process that left its rank's session still holds the output of rank 1; it was not ended\n");
        long holder = Long.parseLong(err().lines()
                .filter(line -> line.matches("\\[rank 1\\] \\d+"))
                .findFirst()
                .orElseThrow()
                .substring(9));
        assertThat(ProcessHandle.of(holder).map(ProcessHandle::destroyForcibly)).hasValue(true);
    }

    @Test
    void everyRankHasAFolderThatGoesWithTheJob() {
        assertThat(run(workers(1, "touch \"$1/file\"; mkdir \"$1/deep\"; touch \"$1/deep/er\"; echo \"$1\""))
                        .exitCode())
                .isZero();
        Path scratch = Path.of(out().strip());
        assertThat(scratch).isAbsolute().doesNotExist();
        assertThat(Files.exists(scratch.getParent().getParent())).isFalse();
    }

    @Test
    void rankThatRemovesItsFolderEndsWithItsCode() {
        LaunchSpec bounded = workers(2, "rm -rf \"${1%/*}\"; exit 3").withTimeout(Eventually.LIMIT);
        assertThat(run(bounded.withGrace(Duration.ofSeconds(1))).exitCode()).isEqualTo(3);
    }

    @Test
    void interruptedCallerEndsItsRanks() throws InterruptedException {
        Thread caller = Thread.ofPlatform().start(() -> {
            run(workers(2, "echo $$; exec sleep 300"));
            assertThat(Thread.currentThread().isInterrupted()).isTrue();
        });
        Eventually.reach("both ranks said who they are", () -> out().endsWith("\n") && err().endsWith("\n"));
        List<Long> pids = List.of(
                Long.parseLong(out().strip()), Long.parseLong(err().strip().replace("[rank 1] ", "")));
        caller.interrupt();
        caller.join();
        // No child of this JVM, so it may stay as a zombie until its reaper comes.
        Eventually.reach("the ranks are gone", () -> pids.stream().noneMatch(LocalAgentTest::isThere));
    }

    private static boolean isThere(long pid) {
        return Files.exists(Path.of("/proc/" + pid));
    }

    @Test
    void failureToStartARankEndsTheOthers() {
        LaunchSpec spec = workers(2, "sleep 300");
        LaunchSpec second = spec.withCommand(
                (rank, scratch) -> rank == 0 ? spec.command().forRank(rank, scratch) : List.of("/no/such/program"));
        assertThatThrownBy(() -> run(second))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("program=/no/such/program");
    }
}
