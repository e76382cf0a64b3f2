package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class FileComparisonTest {
    private static final float ONE_UP = Math.nextUp(1f);

    @TempDir
    private Path folder;

    private Path a;
    private Path b;

    @BeforeEach
    void names() {
        a = folder.resolve("a");
        b = folder.resolve("b");
    }

    private static void write(Path file, Map<String, Tensor> tensors) {
        Safetensors.write(file, tensors);
        tensors.values().forEach(Tensor::close);
    }

    private static Tensor floats(long rows, long columns, float... values) {
        Tensor tensor = Tensor.zeros(DType.F32, rows, columns);
        for (int i = 0; i < values.length; i++) {
            tensor.segment().setAtIndex(ValueLayout.JAVA_FLOAT, i, values[i]);
        }
        return tensor;
    }

    private static Tensor halves(int... bits) {
        Tensor tensor = Tensor.zeros(DType.BF16, 1, bits.length);
        for (int i = 0; i < bits.length; i++) {
            tensor.segment().setAtIndex(ValueLayout.JAVA_SHORT, i, (short) bits[i]);
        }
        return tensor;
    }

    private TensorDifference only() {
        return FileComparison.of(a, b).tensors().getFirst();
    }

    @Test
    void filesOfTheSameBitsAreEqual() {
        write(a, Map.of("y", floats(2, 2, 1, Float.NaN, -0f, 4)));
        write(b, Map.of("y", floats(2, 2, 1, Float.NaN, -0f, 4)));
        assertThat(FileComparison.of(a, b).isEqual()).isTrue();
        assertThat(FileComparison.of(a, b).text())
                .doesNotContain("first difference")
                .contains("\"equal\":true");
    }

    @Test
    void firstDifferenceAndDistances() {
        write(a, Map.of("y", floats(3, 2, 1, 1, 1, 1, 1, 1)));
        write(b, Map.of("y", floats(3, 2, 1, 1, 1, ONE_UP, Math.nextDown(1f) - 2e-7f, 1)));
        TensorDifference y = only();
        assertThat(y.place()).isEqualTo("token=1 channel=1");
        assertThat(y.firstA()).isEqualTo(1);
        assertThat(y.firstB()).isEqualTo(ONE_UP);
        assertThat(y.different()).isEqualTo(2);
        assertThat(y.maxUlps()).isEqualTo(Float.floatToIntBits(1f) - Float.floatToIntBits(Math.nextDown(1f) - 2e-7f));
        assertThat(y.meanUlps()).isEqualTo((1 + y.maxUlps()) / 6);
        assertThat(FileComparison.of(a, b).text())
                .contains("first difference: tensor=y token=1 channel=1 a=1.0 b=" + (double) ONE_UP + "\n");
    }

    /** From -2^-133 over -0 and +0 to +2^-133 is two steps; the zeros differ by none, but differ. */
    @Test
    void distanceCrossesZero() {
        write(a, Map.of("y", halves(0x8001, 0x8000)));
        write(b, Map.of("y", halves(0x0001, 0x0000)));
        TensorDifference y = only();
        assertThat(y.different()).isEqualTo(2);
        assertThat(y.maxUlps()).isEqualTo(2);
        assertThat(y.meanUlps()).isEqualTo(1);
    }

    @Test
    void notANumberInOneFileHasNoDistance() {
        write(a, Map.of("y", floats(1, 2, Float.NaN, 1)));
        write(b, Map.of("y", floats(1, 2, 1, 1)));
        TensorDifference y = only();
        assertThat(y.nans()).isEqualTo(1);
        assertThat(y.maxUlps()).isZero();
        assertThat(y.isEqual()).isFalse();
    }

    @Test
    void missingTensorsTypesAndShapes() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        tensors.put("p", floats(1, 2));
        tensors.put("q", floats(1, 2));
        tensors.put("r", floats(1, 2));
        write(a, tensors);
        write(b, Map.of("q", halves(0, 0), "r", floats(2, 1), "s", floats(1, 1)));
        assertThat(FileComparison.of(a, b).tensors())
                .extracting(TensorDifference::problem)
                .containsExactly(
                        "only in the first file",
                        "types differ: F32 and BF16",
                        "shapes differ: [1, 2] and [2, 1]",
                        "only in the second file");
    }

    /** More than one part of eight MiB, with the difference in the last. */
    @Test
    void largeTensorsAreReadInParts() {
        Tensor tensor = floats(3000, 1000);
        tensor.segment().setAtIndex(ValueLayout.JAVA_FLOAT, 2_999_999, 1);
        write(a, Map.of("y", floats(3000, 1000)));
        write(b, Map.of("y", tensor));
        assertThat(only().place()).isEqualTo("token=2999 channel=999");
        assertThat(only().elements()).isEqualTo(3_000_000);
    }

    private int kcp(StringWriter err, String... args) {
        CommandLine kcp = Main.commandLine(Map.of());
        kcp.setErr(new PrintWriter(err, true));
        return Main.run(kcp, args);
    }

    @Test
    void exitCodesTellEqualDifferentAndUnreadable() {
        write(a, Map.of("y", floats(1, 1, 1)));
        write(b, Map.of("y", floats(1, 1, 2)));
        StringWriter err = new StringWriter();
        assertThat(kcp(err, "conv", "--compare", a.toString(), a.toString())).isZero();
        assertThat(kcp(err, "conv", "--compare", a.toString(), b.toString())).isEqualTo(1);
        assertThat(err.toString()).isEmpty();
        assertThat(kcp(
                        err,
                        "conv",
                        "--compare",
                        a.toString(),
                        folder.resolve("none").toString()))
                .isEqualTo(3);
        assertThat(kcp(err, "conv", "--compare", a.toString(), b.toString(), "--in", a.toString()))
                .isEqualTo(2);
        assertThat(kcp(err, "conv", "--in", a.toString())).isEqualTo(2);
        assertThat(err.toString()).contains("--out");
    }
}
