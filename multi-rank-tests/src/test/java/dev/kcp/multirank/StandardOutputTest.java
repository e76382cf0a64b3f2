package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Commands whose standard output is full, closed or left by its reader. */
@Timeout(120)
class StandardOutputTest {
    private static final String PLAN = "plan --lengths 3x9000 --world 3000 --full";

    @TempDir
    Path folder;

    /** Runs {@code script}, in which {@code "$@"} is the command; stderr goes to a file. */
    private int run(String script, String words) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                "/bin/bash",
                "-c",
                script,
                "script",
                ProcessHandle.current().info().command().orElseThrow(),
                "--add-modules=jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                "dev.kcp.launcher.Main"));
        command.addAll(List.of(words.split(" ")));
        Process process = new ProcessBuilder(command)
                .redirectError(folder.resolve("err").toFile())
                .redirectOutput(folder.resolve("out").toFile())
                .start();
        try {
            assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
            return process.exitValue();
        } finally {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
    }

    private String err() throws IOException {
        return Files.readString(folder.resolve("err"), StandardCharsets.UTF_8);
    }

    @ParameterizedTest
    @ValueSource(strings = {PLAN, "plan --help", "run -n 1 -- echo hi"})
    void fullDiskIsSaidOnceAndIsNoSuccess(String words) throws Exception {
        assertThat(run("\"$@\" >/dev/full", words)).isEqualTo(3);
        assertThat(err())
                .containsOnlyOnce("kcp: standard output cannot be written, output is lost: cause=No space left");
    }

    @Test
    void closedStdoutIsSaid() throws Exception {
        assertThat(run("\"$@\" >&-", PLAN)).isEqualTo(3);
        assertThat(err()).containsOnlyOnce("kcp: standard output cannot be written, output is lost: cause=");
    }

    @Test
    void failureOfTheCommandComesFirst() throws Exception {
        assertThat(run("\"$@\" >/dev/full", "run -n 1 -- false")).isEqualTo(5);
    }

    @ParameterizedTest
    @ValueSource(strings = {PLAN, "run -n 1 -- yes"})
    void readerThatLeftEndsTheCommandInSilence(String words) throws Exception {
        assertThat(run("\"$@\" | head -n 1; exit ${PIPESTATUS[0]}", words)).isEqualTo(141);
        assertThat(err().replaceFirst("WARNING: Using incubator modules: .*\n", ""))
                .isEmpty();
    }

    @Test
    void fileThatStdoutLeadsToKeepsWhatWasPrinted() throws Exception {
        assertThat(run("\"$@\"", "plan --lengths 5 --json /dev/stdout")).isZero();
        assertThat(folder.resolve("out"))
                .content()
                .startsWith("1 document, 5 tokens")
                .contains("\"tree_exact\"");
    }
}
