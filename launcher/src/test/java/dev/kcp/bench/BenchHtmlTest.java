package dev.kcp.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BenchHtmlTest {
    private static BenchReport report(String machine, double... milliseconds) {
        List<BenchRow> rows = java.util.Arrays.stream(milliseconds)
                .mapToObj(ms -> new BenchRow("forward", 64, 8, 2, "program", 1, 5, ms, ms / 2, 2048, 1))
                .toList();
        return new BenchReport(machine, "cpu 1 thread", 20, "0123456789ab", rows);
    }

    @Test
    void fileReadsBackAsItWasWritten(@TempDir Path folder) throws IOException {
        BenchReport report = report("some processor", 1.5, 4);
        Path file = Files.writeString(folder.resolve("a.json"), report.toJson());
        assertThat(BenchFiles.read(file)).isEqualTo(report);
    }

    @Test
    void everyPublishedResultReads() throws IOException {
        Path results = Path.of(System.getProperty("kcp.root"), "benchmarks");
        try (var files = Files.newDirectoryStream(results, "{cpu,h200}-*.json")) {
            int read = 0;
            for (Path file : files) {
                assertThat(BenchFiles.read(file).rows()).as(file.toString()).isNotEmpty();
                read++;
            }
            assertThat(read).isPositive();
        }
    }

    /** The floor is a quarter of a bar that is four floors long. */
    @Test
    void barsAreTimesOverTheFloor() {
        String page = BenchHtml.write(List.of(report("a < b", 1, 4)));
        assertThat(page)
                .contains("a &lt; b")
                .contains("width:25.00%")
                .contains("width:100.00%")
                .contains("left:25.00%")
                .contains("ratio <b>4.00</b>")
                .doesNotContain("bar cut");
        assertThat(BenchHtml.write(List.of(report("a", 1, 40)))).contains("bar cut");
    }

    @Test
    void otherFilesAreRefusedByName(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("a.json"), "{\"rows\":[{\"op\":\"forward\"}]}");
        assertThatThrownBy(() -> BenchFiles.read(file))
                .isInstanceOf(KcpException.class)
                .hasMessage(file + " is no report of kcp bench: it lacks S");
        Files.writeString(file, "[");
        assertThatThrownBy(() -> BenchFiles.read(file)).hasMessageContaining("is not JSON");
        assertThatThrownBy(() -> BenchFiles.read(folder.resolve("none"))).hasMessageContaining("does not exist");
    }
}
