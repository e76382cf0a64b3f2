package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** {@code kcp run} with programs that behave: environment, output, exit codes. */
@Execution(ExecutionMode.CONCURRENT)
class RunCommandTest {
    private static KcpProcess.Result sh(int ranks, String script) {
        return KcpProcess.run("run", "-n", Integer.toString(ranks), "--grace", "60", "--", "/bin/sh", "-c", script);
    }

    @Test
    void everyRankFindsItsPlaceInItsEnvironment() {
        KcpProcess.Result result =
                KcpProcess.run("run", "-n", "3", "--env", "EXTRA=a b=c", "--env", "EMPTY=", "--", "env");
        assertThat(result.exitCode()).isZero();
        Map<String, Map<String, String>> ranks = new HashMap<>();
        for (String line : result.out().split("\n")) {
            String[] pair = line.substring("[rank 0] ".length()).split("=", 2);
            if (pair.length == 2) {
                ranks.computeIfAbsent(line.substring(0, "[rank 0]".length()), key -> new HashMap<>())
                        .put(pair[0], pair[1]);
            }
        }
        assertThat(ranks).containsOnlyKeys("[rank 0]", "[rank 1]", "[rank 2]");
        for (int rank = 0; rank < 3; rank++) {
            Map<String, String> environment = ranks.get("[rank " + rank + "]");
            assertThat(environment)
                    .containsEntry("RANK", "" + rank)
                    .containsEntry("LOCAL_RANK", "" + rank)
                    .containsEntry("WORLD_SIZE", "3")
                    .containsEntry("LOCAL_WORLD_SIZE", "3")
                    .containsEntry("MASTER_ADDR", "127.0.0.1")
                    .containsEntry("EXTRA", "a b=c")
                    .containsEntry("EMPTY", "")
                    .containsEntry("PATH", System.getenv("PATH"));
            for (String common : List.of("MASTER_PORT", "KCP_STORE", "KCP_JOB_ID", "KCP_SECRET")) {
                assertThat(environment.get(common))
                        .isNotEmpty()
                        .isEqualTo(ranks.get("[rank 0]").get(common));
            }
        }
    }

    @Test
    void argumentsReachTheProgramAsTheyAre() {
        KcpProcess.Result result = KcpProcess.run(
                "run", "-n", "1", "--", "printf", "<%s>", "-n", "--", "--help", "a b", "", "@file", "$HOME", "'q'",
                "ü");
        assertThat(result.out()).isEqualTo("[rank 0] <-n><--><--help><a b><><@file><$HOME><'q'><ü>\n");
        assertThat(result.exitCode()).isZero();
    }

    @Test
    void bothStreamsCarryTheRankInWholeLines() {
        KcpProcess.Result result = sh(2, "echo \"out $RANK grüße 🚀\"; echo \"err $RANK\" >&2; printf last");
        assertThat(result.exitCode()).isZero();
        assertThat(result.out().lines())
                .containsExactlyInAnyOrder(
                        "[rank 0] out 0 grüße 🚀", "[rank 0] last", "[rank 1] out 1 grüße 🚀", "[rank 1] last");
        assertThat(result.err().lines()).containsExactlyInAnyOrder("[rank 0] err 0", "[rank 1] err 1");
        assertThat(result.out()).endsWith("\n");
    }

    /** Case 88: full pipes hold nobody up. */
    @Test
    void megabytesWithoutNewlineFromFourRanksArriveWhole() {
        // 1 MB is many pipes full, on both streams at once.
        KcpProcess.Result result = sh(
                4,
                "head -c 1000000 /dev/zero | tr '\\0' \"$RANK\"; head -c 1000000 /dev/zero | tr '\\0' \"$RANK\" >&2");
        assertThat(result.exitCode()).isZero();
        for (String stream : List.of(result.out(), result.err())) {
            assertThat(stream.lines()).hasSize(4).allSatisfy(line -> {
                char rank = line.charAt("[rank ".length());
                assertThat(line).hasSize("[rank k] ".length() + 1_000_000).startsWith("[rank " + rank + "] ");
                assertThat(line.substring("[rank k] ".length()).chars()).allMatch(c -> c == rank);
            });
        }
    }

    @Test
    void linesOfManyRanksAreNeverMixed() {
        KcpProcess.Result result = sh(4, "i=0; while [ $i -lt 500 ]; do echo \"$RANK-$i-end\"; i=$((i+1)); done");
        List<String> lines = result.out().lines().toList();
        assertThat(lines).hasSize(2000).allMatch(line -> line.matches("\\[rank (\\d)\\] \\1-\\d+-end"));
        int[] next = new int[4];
        for (String line : lines) {
            int rank = line.charAt("[rank ".length()) - '0';
            assertThat(line).isEqualTo("[rank " + rank + "] " + rank + "-" + next[rank]++ + "-end");
        }
    }

    @Test
    void programReadsNothingAndIgnoresNoSignal() {
        KcpProcess.Result result = sh(1, "cat; grep SigIgn /proc/self/status");
        assertThat(result.exitCode()).isZero();
        String mask = result.out().strip().replaceFirst("\\[rank 0\\] SigIgn:\\s+", "");
        // Bit n - 1 is signal n; beyond 31 are the C library's own.
        assertThat(Long.parseUnsignedLong(mask, 16) & 0x7FFF_FFFFL).as(mask).isZero();
    }

    @ParameterizedTest
    @CsvSource({
        "exit 3, exited with code 3",
        "exit 255, exited with code 255",
        "kill -KILL $$, was ended by SIGKILL (signal 9)",
        "kill -SEGV $$, was ended by SIGSEGV (signal 11)",
        "kill -TERM $$, was ended by SIGTERM (signal 15)"
    })
    void failingRankIsNamedAndEndsTheOthers(String failure, String words) {
        KcpProcess.Result result = sh(3, "if [ $RANK = 1 ]; then " + failure + "; fi; sleep 300");
        assertThat(result.exitCode()).isEqualTo(5);
        assertThat(result.err().lines())
                .anyMatch(line -> line.startsWith("kcp: rank 1 " + words) && line.contains("pid="))
                .anyMatch(line -> line.equals("kcp:   ranks 0, 2 ended by kcp with SIGTERM"));
    }

    @Test
    void laterFailureDoesNotHideTheFirst() {
        KcpProcess.Result result =
                sh(2, "if [ $RANK = 1 ]; then exit 7; fi; trap 'exit 9' TERM; while :; do sleep 0.05; done");
        assertThat(result.exitCode()).isEqualTo(5);
        assertThat(result.err())
                .contains("kcp: rank 1 exited with code 7 after")
                .endsWith("kcp:   rank 0 exited with code 9\n");
    }

    @Test
    void rankThatEndsEarlyWithZeroDoesNotEndTheOthers() {
        KcpProcess.Result result = sh(2, "[ $RANK = 0 ] || { sleep 0.5; echo late; }");
        assertThat(result.exitCode()).isZero();
        assertThat(result.out()).isEqualTo("[rank 1] late\n");
        assertThat(result.err()).isEmpty();
    }

    @Test
    void timeoutEndsTheJobWithItsOwnCode() {
        KcpProcess.Result result = KcpProcess.run(
                "run", "-n", "2", "--grace", "60", "--timeout", "0.5", "--", "/bin/sh", "-c", "exec sleep 300");
        assertThat(result.exitCode()).isEqualTo(6);
        assertThat(result.err())
                .startsWith("kcp: the job passed its timeout of 0.5 s")
                .contains("kcp:   ranks 0, 1 ended by kcp with SIGTERM\n");
    }

    static Stream<List<String>> wrong() {
        return Stream.of(
                List.of("run", "-n", "0", "--", "true"),
                List.of("run", "-n", "2"),
                List.of("run", "-n", "2", "--frobnicate", "--", "true"),
                List.of("run", "-n", "2", "--", "/no/such/program"));
    }

    @ParameterizedTest
    @MethodSource("wrong")
    void wrongUsageIsOneLineAndCodeTwo(List<String> args) {
        KcpProcess.Result result = KcpProcess.run(args.toArray(String[]::new));
        assertThat(result.exitCode()).isEqualTo(2);
        assertThat(result.err().lines()).hasSize(1);
        assertThat(result.out()).isEmpty();
    }

    /** Case 83: all that two jobs with defaults could share is their own. */
    @RepeatedTest(2)
    void twoJobsAtOnceNeverMeet() {
        String[] args = {
            "run", "-n", "2", "--", "/bin/sh", "-c", "echo $KCP_JOB_ID $KCP_SECRET $KCP_STORE $MASTER_PORT; sleep 0.3"
        };
        try (KcpProcess one = KcpProcess.start(args);
                KcpProcess two = KcpProcess.start(args)) {
            List<String> first = words(one.await());
            List<String> second = words(two.await());
            assertThat(first).hasSize(4).doesNotContainAnyElementsOf(second);
            assertThat(second).hasSize(4);
        }
    }

    @RepeatedTest(18)
    @Tag("heavy")
    void twoJobsAtOnceNeverMeetOften() {
        twoJobsAtOnceNeverMeet();
    }

    /** The words of a job whose ranks all print the same. */
    private static List<String> words(KcpProcess.Result result) {
        assertThat(result.exitCode()).as(result.err()).isZero();
        List<String> bodies = result.out()
                .lines()
                .map(line -> line.substring("[rank k] ".length()))
                .distinct()
                .toList();
        assertThat(bodies).hasSize(1);
        return Arrays.asList(bodies.getFirst().split(" "));
    }
}
