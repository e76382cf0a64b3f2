package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProgressTest {
    @TempDir
    Path folder;

    @Test
    void longRunPrintsSomeLinesTheFirstAndLastStepAmongThem() {
        List<String> lines = show(Progress.Style.LINES, 1000).lines().toList();
        assertThat(lines).hasSizeBetween(20, 50);
        assertThat(lines.getFirst()).isEqualTo("step 1/1000  loss 1.0000  1500 tokens/s");
        assertThat(lines.getLast()).startsWith("step 1000/1000  loss 0.0010");
    }

    @Test
    void shortRunPrintsEveryStep() {
        assertThat(show(Progress.Style.LINES, 3).lines()).hasSize(3);
    }

    @Test
    void barWritesOverItsLineAndEndsIt() {
        String shown = show(Progress.Style.BAR, 5);
        assertThat(shown)
                .startsWith("\r")
                .endsWith("\n")
                .contains("loss 0.2000")
                .contains("5/5");
        assertThat(shown.lines().filter(line -> !line.isBlank())).isNotEmpty();
    }

    @Test
    void barThatIsClosedTwiceEndsItsLineOnce() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Progress bar = Progress.of(Progress.Style.BAR, 5, new PrintStream(bytes, true, StandardCharsets.UTF_8));
        bar.close();
        bar.close();
        assertThat(bytes.toString(StandardCharsets.UTF_8))
                .containsOnlyOnce("\n")
                .endsWith("\n");
    }

    @Test
    void noneShowsNothing() {
        assertThat(show(Progress.Style.NONE, 5)).isEmpty();
    }

    @Test
    void lossLogHasALinePerStep() throws IOException {
        Path file = folder.resolve("loss.jsonl");
        try (LossLog log = new LossLog(file)) {
            log.onStep(1, 5.5, 10);
            log.onStep(2, 5.25, 10);
            assertThat(Files.readAllLines(file)).hasSize(2);
        }
        assertThat(Files.readAllLines(file)).containsExactly("{\"step\":1,\"loss\":5.5}", "{\"step\":2,\"loss\":5.25}");
    }

    @Test
    void lookAtHeldOutTextIsTold() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        Path file = folder.resolve("loss.jsonl");
        try (Progress lines = Progress.of(Progress.Style.LINES, 1000, out);
                LossLog log = new LossLog(file)) {
            TrainListener both = TrainListener.both(lines, log);
            for (int step = 1; step <= 4; step++) {
                if (step == 3) {
                    both.onHeldOut(step, 2.5);
                }
                both.onStep(step, 1.5, 1500);
            }
        }
        // Of a long run steps 2 to 4 are not shown otherwise.
        assertThat(bytes.toString(StandardCharsets.UTF_8).lines())
                .containsExactly(
                        "step 1/1000  loss 1.5000  1500 tokens/s",
                        "step 3/1000  loss 1.5000  held out 2.5000  1500 tokens/s");
        assertThat(Files.readAllLines(file))
                .containsExactly(
                        "{\"step\":1,\"loss\":1.5}",
                        "{\"step\":2,\"loss\":1.5}",
                        "{\"step\":3,\"loss\":1.5,\"held_out_loss\":2.5}",
                        "{\"step\":4,\"loss\":1.5}");
    }

    @Test
    void lossLogThatCannotBeWrittenIsRefused() {
        assertThatThrownBy(() -> new LossLog(folder.resolve("none/loss.jsonl")))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("none/loss.jsonl");
    }

    private static String show(Progress.Style style, int steps) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (Progress progress = Progress.of(style, steps, new PrintStream(bytes, true, StandardCharsets.UTF_8))) {
            for (int step = 1; step <= steps; step++) {
                progress.onStep(step, 1.0 / step, 1500);
            }
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }
}
