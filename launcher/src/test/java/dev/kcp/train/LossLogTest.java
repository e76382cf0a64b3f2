package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LossLogTest {
    private static final String TWO = line(1) + line(2);

    @TempDir
    Path folder;

    @ParameterizedTest(name = "{0}")
    @CsvSource({
        "steps after the state, 1 2 3 4 5, 1 2",
        "begun at a resume and gone on with, 2 3 4, 2",
        "only later steps, 7 8,",
        "written twice by an older kcp, 1 2 1 2 3, 1 2"
    })
    void logIsCutByStepNotByLines(String name, String before, String kept) throws IOException {
        assertThat(resumed(lines(before))).isEqualTo(lines(kept == null ? "" : kept) + line(3));
    }

    @Test
    void tornLinesAreDropped() throws IOException {
        String torn = "{\"step\":2,\"lo";
        assertThat(resumed(line(1) + torn)).isEqualTo(line(1) + line(3));
        assertThat(resumed(line(1) + torn + line(2))).isEqualTo(line(1) + line(3));
        assertThat(resumed(line(1) + torn + "\n" + line(2))).isEqualTo(TWO + line(3));
        assertThat(resumed(TWO + "\0\0\0\0")).isEqualTo(TWO + line(3));
    }

    @Test
    void lastLineThatLacksOnlyItsEndIsKept() throws IOException {
        assertThat(resumed(TWO.stripTrailing())).isEqualTo(TWO + line(3));
    }

    @Test
    void lineWithHeldOutLossIsKeptAndARunFromTheStartKeepsNone() throws IOException {
        String held = "{\"step\":1,\"loss\":5.0,\"held_out_loss\":4.5}\n";
        assertThat(resumed(held)).isEqualTo(held + line(3));
        Path file = Files.writeString(folder.resolve("other"), TWO);
        try (LossLog log = new LossLog(file)) {
            log.onBegin(0);
        }
        assertThat(file).isEmptyFile();
    }

    @Test
    void saveForcesTheLogAndAPipeIsNoneToForce() throws IOException {
        LossLog log = new LossLog(folder.resolve("log"));
        log.onSave(1);
        log.close();
        // Who touches the disk cannot do so with a closed file.
        assertThatThrownBy(() -> log.onSave(1)).isInstanceOf(RuntimeException.class);
        try (LossLog device = new LossLog(Path.of("/dev/null"))) {
            device.onBegin(3);
            device.onSave(3);
        }
    }

    @Test
    void emptyPathIsRefused() {
        assertThatThrownBy(() -> new LossLog(Path.of("")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("file=");
    }

    /** What a run that goes on after step 2 and makes step 3 leaves. */
    private String resumed(String before) throws IOException {
        Path file = Files.writeString(folder.resolve("loss.jsonl"), before);
        try (LossLog log = new LossLog(file)) {
            log.onBegin(2);
            log.onStep(3, 5, 10);
        }
        return Files.readString(file);
    }

    private static String lines(String steps) {
        StringBuilder lines = new StringBuilder();
        for (String step : steps.split(" ")) {
            lines.append(step.isEmpty() ? "" : line(Integer.parseInt(step)));
        }
        return lines.toString();
    }

    private static String line(int step) {
        return "{\"step\":" + step + ",\"loss\":5.0}\n";
    }
}
