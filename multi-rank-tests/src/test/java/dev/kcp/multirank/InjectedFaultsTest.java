package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** {@code kcp train --inject}: each kind of fault ends the job with the code that the table in design promises. */
@Timeout(180)
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
                fault.startsWith("hang") ? "10" : "50",
                "--inject",
                fault);
    }

    @Test
    void everyFaultEndsTheJobWithItsOwnCode() throws IOException {
        Map<String, Integer> codes = new LinkedHashMap<>();
        codes.put("kill@1:2", 5);
        codes.put("hang@1:2", 6);
        codes.put("desync@1:2", 7);
        for (Map.Entry<String, Integer> fault : codes.entrySet()) {
            try (KcpProcess kcp = train(fault.getKey())) {
                KcpProcess.Result result = kcp.await();
                assertThat(result.exitCode())
                        .as(fault.getKey() + "\n" + result.err())
                        .isEqualTo(fault.getValue());
                assertThat(result.err()).contains("injected fault: " + fault.getKey());
                if (fault.getKey().startsWith("desync")) {
                    assertThat(result.err()).containsPattern("kcp: +calls: .*injected call");
                }
                if (fault.getKey().startsWith("kill")) {
                    assertThat(result.err()).contains("kcp: rank 1 was ended by SIGKILL (signal 9)");
                }
            }
        }
    }
}
