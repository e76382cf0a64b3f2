package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Natives that many ranks unpack at the same moment, or that cannot be unpacked. */
class NativeCacheTest {
    @TempDir
    private Path folder;

    private static KcpProcess.Result doctors(int ranks, Path cache) {
        return KcpProcess.run(
                "run",
                "-n",
                "" + ranks,
                "--jvm-arg",
                "-XX:TieredStopAtLevel=1",
                "--jvm-arg",
                "-XX:+UseSerialGC",
                "--jvm-arg",
                "-Dorg.bytedeco.javacpp.cachedir=" + cache,
                "--",
                "java:dev.kcp.launcher.Main",
                "doctor",
                "--need",
                "cpu");
    }

    /** Case 93: a cold cache and eight processes at once. */
    @Test
    void eightRanksUnpackIntoOneEmptyCache() throws IOException {
        Path cache = folder.resolve("cache");
        KcpProcess.Result result = doctors(8, cache);
        assertThat(result.exitCode()).as(result.err() + result.out()).isZero();
        assertThat(result.out().lines().filter(line -> line.matches("\\[rank \\d] openblas +ok .*")))
                .hasSize(8);
        try (Stream<Path> files = Files.walk(cache)) {
            assertThat(files.filter(Files::isRegularFile)
                            .map(file -> file.getFileName().toString()))
                    .contains("libopenblas_nolapack.so.0");
        }
    }

    @RepeatedTest(19)
    @Tag("heavy")
    void eightRanksUnpackIntoOneEmptyCacheOften() throws IOException {
        eightRanksUnpackIntoOneEmptyCache();
    }

    /** Case 94: nowhere to unpack to. */
    @Test
    void cacheThatCannotBeMadeIsOneLineOrDoneWithout() {
        // Below a device file there is no folder, not even for root.
        KcpProcess.Result result = doctors(1, Path.of("/dev/null/cache"));
        List<String> line = result.out()
                .lines()
                .filter(text -> text.startsWith("[rank 0] openblas"))
                .toList();
        assertThat(line).hasSize(1);
        assertThat(result.exitCode()).isIn(0, 5);
        if (result.exitCode() == 5) {
            assertThat(line.getFirst()).contains("missing").contains("OpenBLAS cannot be loaded");
            assertThat(result.err()).contains("exited with code 8").doesNotContain("\tat ");
        }
    }

    /** Case 96: one line, and the CPU serves. */
    @Test
    void missingDriverIsOneLineAndTheCpuStillServes() {
        KcpProcess.Result result;
        try (KcpProcess kcp = KcpProcess.start(
                Map.of("CUDA_VISIBLE_DEVICES", "-1", "LD_LIBRARY_PATH", ""), "doctor", "--need", "cuda")) {
            result = kcp.await();
        }
        assertThat(result.exitCode()).isEqualTo(8);
        assertThat(result.err()).hasLineCount(1).startsWith("kcp: missing for cuda: ");
        assertThat(result.out()).containsPattern("=> cpu +ready");
    }
}
