package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code kcp run --hang-timeout}: a hang is noticed long before the deadlines of the ranks' own waits. */
@Execution(ExecutionMode.CONCURRENT)
class HangTimeoutTest {
    @TempDir
    private Path folder;

    private KcpProcess.Result run(Map<String, String> environment, List<String> options, String... program) {
        List<String> args = new ArrayList<>(List.of("run", "--grace", "2"));
        args.addAll(options);
        args.add("--");
        args.addAll(List.of(program));
        try (KcpProcess kcp = KcpProcess.start(environment, args.toArray(String[]::new))) {
            return kcp.await();
        }
    }

    private String text() throws IOException {
        Path text = folder.resolve("text.txt");
        Files.writeString(text, "It was the best of times.\n\nIt was the worst of times.\n\n".repeat(20));
        return text.toString();
    }

    /** Before its first step a rank has not said what it takes the batch for; later it has, a step ahead. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "hang@1:1 | rank 0 waits for batch 0 of group world, not stated by ranks [1]",
                "hang@1:2 | rank 1 is behind in group world: its last call was"
            })
    void aRankThatHangsIsNamedWithItsCallAndItsThreads(String fault, String calls) throws IOException {
        Path error = folder.resolve("report.json");
        KcpProcess.Result result = run(
                Map.of("KCP_RUN_HANG_TIMEOUT", "8"),
                List.of("-n", "2", "--error-file", error.toString()),
                "java:dev.kcp.launcher.Main",
                "train",
                "--data",
                text(),
                "--steps",
                "3",
                "--tokens",
                "128",
                "--channels",
                "8",
                "--layers",
                "1",
                "--deadline",
                "300",
                "--inject",
                fault);
        assertThat(result.exitCode()).as(result.err()).isEqualTo(6);
        assertThat(result.err())
                .contains("kcp: the job hung and was ended: no collective call was completed for 8.0 s, with rank 0 "
                        + "inside one: host=")
                .containsPattern("kcp:   rank 1's threads: at .*Injection")
                .contains("kcp:   calls: " + calls);
        JsonNode report = new ObjectMapper().readTree(error.toFile());
        assertThat(report.get("reason").asText()).isEqualTo("hang");
        assertThat(report.get("exit_code").asInt()).isEqualTo(6);
        assertThat(report.get("hang_timeout_s").asDouble()).isEqualTo(8);
        assertThat(report.get("ranks_inside_a_call").toString()).isEqualTo("[0]");
        assertThat(report.get("calls").toString()).contains(calls);
        assertThat(report.get("ranks").get(1).get("thread_dump").toString()).contains("Injection");
    }

    /** A stopped process writes nothing when it is told to end; the progress that it had written tells. */
    @Test
    void aStoppedRankIsNamedByTheProgressItHadWritten() {
        KcpProcess.Result result = run(
                Map.of(),
                List.of("-n", "3", "--hang-timeout", "6"),
                "java:" + FaultRank.class.getName(),
                "SIGSTOP",
                "BACKWARD",
                "300");
        assertThat(result.exitCode()).as(result.err()).isEqualTo(6);
        assertThat(result.err())
                .contains("kcp: the job hung and was ended: ")
                .containsPattern("kcp:   calls: rank 2 was last (done with|inside) call \\d+ HALO_");
        assertThat(Path.of("").toAbsolutePath()).isDirectoryNotContaining("glob:**/.attach_pid*");
    }

    @Test
    void ranksThatAreInsideNoCallMayTakeAnyTime() {
        assertThat(run(Map.of(), List.of("-n", "2", "--hang-timeout", "0.5"), "sleep", "2")
                        .exitCode())
                .isZero();
        assertThat(run(Map.of(), List.of("-n", "2", "--hang-timeout", "0"), "true")
                        .exitCode())
                .isEqualTo(2);
    }
}
