package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Logs, restarts and reports of {@code kcp run}. */
@Execution(ExecutionMode.CONCURRENT)
class RunOutcomesTest {
    @TempDir
    private Path folder;

    private static KcpProcess.Result run(List<String> options, String... program) {
        List<String> args = new ArrayList<>(List.of("run", "--grace", "1"));
        args.addAll(options);
        args.add("--");
        args.addAll(List.of(program));
        return KcpProcess.run(args.toArray(String[]::new));
    }

    private static KcpProcess.Result sh(List<String> options, String script) {
        return run(options, "/bin/sh", "-c", script);
    }

    private JsonNode report() throws IOException {
        return new ObjectMapper().readTree(folder.resolve("report.json").toFile());
    }

    @Test
    void logFilesHoldEachRanksBytesAndTheConsoleWhatWasAskedFor() throws IOException {
        String script = "printf 'out %s' $RANK; echo err $RANK >&2";
        String logs = folder.resolve("deep/logs").toString();
        KcpProcess.Result silent = sh(List.of("-n", "3", "--log-dir", logs), script);
        assertThat(silent.exitCode()).isZero();
        assertThat(silent.out() + silent.err()).isEmpty();
        for (int rank = 0; rank < 3; rank++) {
            assertThat(Path.of(logs, "rank-" + rank + ".out")).hasContent("out " + rank);
            assertThat(Path.of(logs, "rank-" + rank + ".err")).hasContent("err " + rank + "\n");
        }
        KcpProcess.Result shown = sh(List.of("-n", "3", "--log-dir", logs, "--tee", "--filter-ranks", "0,2"), script);
        assertThat(shown.out().lines()).containsExactlyInAnyOrder("[rank 0] out 0", "[rank 2] out 2");
        assertThat(shown.err().lines()).containsExactlyInAnyOrder("[rank 0] err 0", "[rank 2] err 2");
    }

    @Test
    void restartedRanksAreANewJobAndMayEndWell() throws IOException {
        Path jobs = folder.resolve("jobs");
        Path error = folder.resolve("report.json");
        KcpProcess.Result result = sh(
                List.of("-n", "2", "--max-restarts", "3", "--error-file", error.toString()),
                "echo $KCP_RESTART $KCP_JOB_ID >>" + jobs + "; [ $KCP_RESTART = 2 ] || [ $RANK = 0 ] || exit 3");
        assertThat(result.exitCode()).as(result.err()).isZero();
        assertThat(result.err().lines().filter(line -> line.startsWith("kcp: rank 1 exited with code 3")))
                .hasSize(2);
        assertThat(result.err()).contains("restart=2 max-restarts=3").doesNotContain("restart=3");
        assertThat(Files.readAllLines(jobs).stream().distinct()).hasSize(3);
        assertThat(error).doesNotExist();
    }

    @Test
    void restartsEnd() throws IOException {
        Path error = folder.resolve("report.json");
        KcpProcess.Result result =
                sh(List.of("-n", "1", "--max-restarts", "1", "--error-file", error.toString()), "exit 3");
        assertThat(result.exitCode()).isEqualTo(5);
        assertThat(report().get("restarts").asInt()).isEqualTo(1);
    }

    @Test
    void timeoutBoundsAllRestartsTogether() {
        KcpProcess.Result result =
                sh(List.of("-n", "1", "--max-restarts", "1000", "--timeout", "2"), "sleep 0.3; exit 3");
        assertThat(result.exitCode()).isEqualTo(6);
        assertThat(result.err()).contains("passed its timeout");
    }

    @Test
    void reportTellsWhatTheFirstRankSaidLastAndWhereItsLogsAre() throws IOException {
        Path error = folder.resolve("report.json");
        Files.writeString(error, "of an earlier job");
        KcpProcess.Result result = sh(
                List.of("-n", "2", "--log-dir", folder.toString(), "--error-file", error.toString()),
                "if [ $RANK = 1 ]; then echo noise >&2; echo 'ValueError: no such file' >&2; "
                        + "echo '{\"n\":7}' >$KCP_CALLS_DIR/rank1.jsonl; kill -SEGV $$; fi; sleep 60");
        assertThat(result.exitCode()).isEqualTo(5);
        assertThat(result.err())
                .startsWith("kcp: rank 1 was ended by SIGSEGV")
                .contains("kcp:   its last words: ValueError: no such file\n")
                .contains("kcp:   its last call: {\"n\":7}\n")
                .contains("kcp:   its log: " + folder.resolve("rank-1.err") + "\n");
        JsonNode first = report().get("first_failure");
        assertThat(first.get("rank").asInt()).isEqualTo(1);
        assertThat(first.get("signal").asText()).isEqualTo("SIGSEGV");
        assertThat(first.get("message").asText()).isEqualTo("ValueError: no such file");
        assertThat(first.get("last_calls").get(0).get("n").asInt()).isEqualTo(7);
        assertThat(report().get("ranks").get(0).get("ended_by_launcher").asBoolean())
                .isTrue();
        assertThat(sh(List.of("-n", "1", "--error-file", error.toString()), "true")
                        .exitCode())
                .isZero();
        assertThat(error).doesNotExist();
    }

    /** A rank that waits for ever in a method whose name a report should give. */
    static final class Hung {
        private Hung() {}

        public static void main(String[] args) throws InterruptedException {
            waitForNobody();
        }

        private static void waitForNobody() throws InterruptedException {
            Thread.sleep(Duration.ofHours(1));
        }
    }

    @Test
    void hungRanksSayWhereTheyWereBeforeTheyAreEnded() throws IOException {
        Path error = folder.resolve("report.json");
        KcpProcess.Result result = run(
                List.of("-n", "2", "--timeout", "6", "--error-file", error.toString()), "java:" + Hung.class.getName());
        assertThat(result.exitCode()).isEqualTo(6);
        assertThat(result.err())
                .startsWith("[rank")
                .contains("kcp: the job passed its timeout of 6.0 s")
                .containsPattern("kcp:   rank [01]'s threads: at .*waitForNobody");
        assertThat(report().get("reason").asText()).isEqualTo("timeout");
        assertThat(report().get("ranks").toString()).contains("waitForNobody");
    }

    /** A rank whose JVM crashes. */
    static final class Crashing {
        private Crashing() {}

        public static void main(String[] args) throws Exception {
            new ProcessBuilder("/bin/sh", "-c", "kill -s SEGV $PPID").start();
            Thread.sleep(Duration.ofHours(1));
        }
    }

    @Test
    void crashLogOfTheJvmIsFound() throws IOException {
        Path error = folder.resolve("report.json");
        KcpProcess.Result result = run(
                List.of(
                        "-n",
                        "1",
                        "--log-dir",
                        folder.toString(),
                        "--error-file",
                        error.toString(),
                        "--jvm-arg",
                        "-XX:ErrorFile=" + folder + "/hs_err_pid%p.log"),
                "java:" + Crashing.class.getName());
        assertThat(result.exitCode()).isEqualTo(5);
        assertThat(result.err()).contains("kcp:   its crash log: " + folder + "/hs_err_pid");
        assertThat(Path.of(report().get("first_failure").get("crash_file").asText()))
                .isNotEmptyFile();
    }

    /** Case 87: a failed job looks like one to the shell. */
    @Test
    void nothingFollowsAFailedJobInTheShell() throws Exception {
        Process shell = new ProcessBuilder(
                        "/bin/sh",
                        "-c",
                        "\"$0\" -cp \"$1\" dev.kcp.launcher.Main run -n 2 -- sh -c 'exit $RANK' && echo ok",
                        ProcessHandle.current().info().command().orElseThrow(),
                        System.getProperty("java.class.path"))
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        assertThat(shell.getInputStream().readAllBytes()).isEmpty();
        assertThat(shell.waitFor(Eventually.LIMIT)).isTrue();
        assertThat(shell.exitValue()).isEqualTo(5);
    }
}
