package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code kcp train --inject}: each kind of fault ends the job with the code that the table in design promises. */
@Execution(ExecutionMode.CONCURRENT)
class InjectedFaultsTest {
    @TempDir
    private Path folder;

    private KcpProcess train(String fault) throws IOException {
        Path text = folder.resolve("text.txt");
        Files.writeString(text, "It was the best of times.\n\nIt was the worst of times.\n\n".repeat(20));
        return KcpProcess.start(
                "train",
                "--data",
                text.toString(),
                "--world",
                "2",
                "--steps",
                "3",
                "--tokens",
                "128",
                "--channels",
                "8",
                "--layers",
                "1",
                "--deadline",
                fault.startsWith("hang") ? "15" : "300",
                "--inject",
                fault);
    }

    @ParameterizedTest
    @CsvSource({"kill@1:2, 5", "hang@1:2, 6", "desync@1:2, 7"})
    void everyFaultEndsTheJobWithItsOwnCode(String fault, int code) throws IOException {
        try (KcpProcess kcp = train(fault)) {
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).as(result.err()).isEqualTo(code);
            assertThat(result.err()).contains("injected fault: " + fault);
            if (fault.startsWith("desync")) {
                assertThat(result.err()).containsPattern("kcp: +calls: .*injected call");
            }
            if (fault.startsWith("kill")) {
                assertThat(result.err()).contains("kcp: rank 1 was ended by SIGKILL (signal 9)");
            }
        }
    }
}
