package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Outputs of every command that are links: the link stays, the file that it leads to is written. */
@Timeout(60)
class OutputThroughLinkTest {
    @TempDir
    Path folder;

    /** Runs the words of a line; {@code @} stands for the folder. */
    private int run(String line) {
        PrintStream shown = System.out;
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        try {
            return Main.run(Map.of(), line.replace("@", folder.toString()).split(" "));
        } finally {
            System.setOut(shown);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "conv --in @/case --out @/link.svg, 0",
        "plan --lengths 5 --json @/link.svg, 0",
        "plan --lengths 5 --svg @/link.svg, 0",
        "train --data @/text --steps 1 --layers 1 --channels 16 --tokens 64 --plot @/link.svg, 0",
        "train --data @/text --steps 1 --layers 1 --channels 16 --tokens 64 --report @/link.svg, 0",
        "train --data @/text --steps 1 --layers 1 --channels 16 --tokens 64 --loss-log @/link.svg, 0",
        "run -n 1 --error-file @/link.svg -- false, 5"
    })
    void linkStaysAndItsEndIsWritten(String line, int code) throws Exception {
        Files.writeString(folder.resolve("text"), "some text to learn from, of a few words\n");
        writeCase(folder.resolve("case"));
        Path target = Files.createDirectory(folder.resolve("deep")).resolve("target");
        Path link = Files.createSymbolicLink(folder.resolve("link.svg"), Path.of("deep/target"));
        for (String before : new String[] {null, "of an earlier run"}) {
            if (before != null) {
                Files.writeString(target, before);
            }
            assertThat(run(line)).isEqualTo(code);
            assertThat(link).isSymbolicLink();
            assertThat(Files.readAllBytes(target))
                    .isNotEmpty()
                    .isNotEqualTo("of an earlier run".getBytes(StandardCharsets.US_ASCII));
            assertThat(target.getParent().toFile().list()).containsExactly("target");
        }
    }

    @Test
    void reportOfAnEarlierJobBehindALinkIsEmptied() throws Exception {
        Path target = Files.writeString(folder.resolve("target"), "of an earlier job");
        Path link = Files.createSymbolicLink(folder.resolve("link"), target);
        assertThat(run("run -n 1 --error-file @/link -- true")).isZero();
        assertThat(link).isSymbolicLink();
        assertThat(target).isEmptyFile();
    }

    private static void writeCase(Path file) {
        try (Tensor x = Tensor.zeros(DType.BF16, 5, 8);
                Tensor weight = Tensor.zeros(DType.F32, 8, 4);
                Tensor offsets = Tensor.zeros(DType.I32, 2)) {
            offsets.segment().setAtIndex(ValueLayout.JAVA_INT, 1, 5);
            Safetensors.write(file, Map.of("x", x, "weight", weight, "cu_seqlens", offsets));
        }
    }
}
