package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StateFolderTest {
    private static final Map<String, String> RUN = Map.of("channels", "8", "layers", "1", "steps", "100000009");

    @TempDir
    Path path;

    private final List<String> notes = new ArrayList<>();
    private final StateBuffers buffers = new StateBuffers(new ParameterTable(new ModelShape(1, 8)));
    private StateFolder folder;

    @BeforeEach
    void lock() {
        folder = new StateFolder(path);
        folder.lock();
    }

    @AfterEach
    void close() {
        folder.close();
        buffers.close();
    }

    @Test
    void damagedNewestStatePushesOutNeitherTheOneBeforeNorLaterOnes() throws IOException {
        save(10, 3);
        save(20, 3);
        save(30, 3);
        flip(folder.file(30), Files.size(folder.file(30)) - 9, 0);
        assertThat(newest()).isEqualTo(20);
        assertThat(notes).anyMatch(note -> note.endsWith("file=" + folder.file(30) + ".damaged"));
        save(21, 1);
        assertThat(names()).containsExactly("state-00000021.safetensors", "state-00000030.safetensors.damaged");
        assertThat(newest()).isEqualTo(21);
    }

    @Test
    void damagedStateIsSetAsideUnderANameThatIsFree() throws IOException {
        save(10, 3);
        Files.writeString(folder.file(30), "first");
        newest();
        Files.writeString(folder.file(30), "second");
        newest();
        assertThat(path.resolve("state-00000030.safetensors.damaged")).hasContent("first");
        assertThat(path.resolve("state-00000030.safetensors.damaged-2")).hasContent("second");
    }

    @Test
    void lookingWithoutTheLockRenamesNothing() throws IOException {
        save(10, 3);
        Files.writeString(folder.file(30), "x");
        folder.close();
        assertThat(newest()).isEqualTo(10);
        assertThat(names()).contains("state-00000030.safetensors");
    }

    @Test
    void stateIsAsNewAsItSaysNotAsItIsNamed() throws IOException {
        save(8, 3);
        save(10, 3);
        Files.move(folder.file(8), folder.file(99));
        assertThat(newest()).isEqualTo(10);
        save(11, 1);
        assertThat(names()).containsExactly("state-00000011.safetensors");
        Files.move(folder.file(11), folder.file(77));
        assertThat(newest()).isEqualTo(11);
        assertThat(notes.getLast()).endsWith("state-00000077.safetensors step=11");
        save(12, 1);
        assertThat(names()).containsExactly("state-00000012.safetensors");
    }

    @Test
    void stepsOfNineDigitsAreNewerThanThoseOfEight() throws IOException {
        save(99_999_998, 2);
        save(99_999_999, 2);
        save(100_000_000, 2);
        assertThat(names()).containsExactly("state-100000000.safetensors", "state-99999999.safetensors");
        assertThat(newest()).isEqualTo(100_000_000);
    }

    @Test
    void noFlippedBitOfAHeaderIsTakenForAnotherRunOrVersion() throws IOException {
        save(3, 1);
        byte[] good = Files.readAllBytes(folder.file(3));
        int headerBytes =
                (int) ByteBuffer.wrap(good).order(ByteOrder.LITTLE_ENDIAN).getLong();
        String header = new String(good, 8, headerBytes, java.nio.charset.StandardCharsets.US_ASCII);
        List<Integer> bits = new ArrayList<>();
        for (int i = 0; i < 8 + headerBytes; i++) {
            bits.add(8 * i + i % 8);
        }
        for (String value : List.of("kcp-train-1", "\"8\"")) {
            int end = 8 + header.indexOf(value) + value.length();
            for (int bit = 8 * (end - 2); bit < 8 * end; bit++) {
                bits.add(bit);
            }
        }
        Path file = folder.file(4);
        for (int bit : bits) {
            byte[] bad = good.clone();
            bad[bit / 8] ^= (byte) (1 << bit % 8);
            Files.write(file, bad);
            assertThatCode(() -> StateFile.checkVersion(file)).as("bit %d", bit).doesNotThrowAnyException();
            assertThatThrownBy(() -> StateFile.read(file, RUN, buffers))
                    .as("bit %d", bit)
                    .isInstanceOf(KcpException.class);
        }
    }

    @Test
    void stateOfAnotherVersionIsNeverPassedOver() {
        save(5, 3);
        for (int step : new int[] {4, 9}) {
            Safetensors.writeDurably(
                    folder.file(step),
                    buffers.tensors(),
                    Map.of("format", "kcp-train-2", "checksum", "crc64:0", "step", "" + step));
            assertThatThrownBy(this::newest)
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageEndingWith(
                            "file=" + folder.file(step) + " expected format=kcp-train-1 saved format=kcp-train-2");
            folder.file(step).toFile().delete();
        }
    }

    @Test
    void wholeStateOfAnotherModelIsRefusedAsAnotherRuns() {
        save(5, 3);
        Map<String, String> other = new HashMap<>(RUN);
        other.put("channels", "16");
        try (StateBuffers larger = new StateBuffers(new ParameterTable(new ModelShape(1, 16)))) {
            assertThatThrownBy(() -> folder.newest(other, larger, notes::add))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageEndingWith("channels=16 saved channels=8");
        }
    }

    @Test
    void stateThatIsNotFiniteIsNotGoneOnWith() {
        save(5, 3);
        Tensor last = List.copyOf(buffers.tensors().values()).getLast();
        last.segment().set(ValueLayout.JAVA_FLOAT, 4, Float.NaN);
        save(6, 3);
        assertThat(newest()).isEqualTo(5);
        assertThat(notes.getFirst()).contains("not finite: tensor=second_moment.", " element=1 value=NaN");
    }

    private void save(int step, int keep) {
        folder.save(new RunPosition(step, DataPosition.START, 5, 5), RUN, buffers, keep);
    }

    private int newest() {
        return folder.newest(RUN, buffers, notes::add).orElseThrow().position().step();
    }

    private List<String> names() throws IOException {
        try (Stream<Path> all = Files.list(path)) {
            return all.map(file -> file.getFileName().toString())
                    .filter(name -> name.startsWith("state"))
                    .sorted()
                    .toList();
        }
    }

    private static void flip(Path file, long at, int bit) throws IOException {
        byte[] bytes = Files.readAllBytes(file);
        bytes[(int) at] ^= (byte) (1 << bit);
        Files.write(file, bytes);
    }
}
