package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class SmallCallsTest {
    private static final int CALLS = 20_000;
    private static final long GROWTH_KIB = 16 * 1024;

    /** Case 100: nothing waits for the collector. */
    @Test
    void residentMemoryStaysFlatInASmallHeap() throws Exception {
        Process process = new ProcessBuilder(
                        ProcessHandle.current().info().command().orElseThrow(),
                        "-Xms64m",
                        "-Xmx64m",
                        "-XX:+AlwaysPreTouch",
                        "--add-modules=jdk.incubator.vector",
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        System.getProperty("java.class.path"),
                        SmallCalls.class.getName(),
                        "" + CALLS)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        List<Long> resident = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8)
                .lines()
                .map(Long::parseLong)
                .toList();
        assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
        assertThat(process.exitValue()).isZero();
        assertThat(resident).hasSize(2);
        assertThat(resident.get(1) - resident.get(0)).as("KiB grown").isLessThan(GROWTH_KIB);
    }
}
