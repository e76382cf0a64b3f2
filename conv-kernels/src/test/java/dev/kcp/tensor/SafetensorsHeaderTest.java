package dev.kcp.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Headers as other programs and other years write them. */
class SafetensorsHeaderTest {
    private static final String X = "\"x\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}";

    @TempDir
    Path folder;

    /** Two rows 1 2 and 3 4 as x, and so many bytes more. */
    private Safetensors open(byte[] header, int moreBytes) throws IOException {
        Path file = folder.resolve("f");
        ByteBuffer all = ByteBuffer.allocate(8 + header.length + 16 + moreBytes).order(ByteOrder.LITTLE_ENDIAN);
        all.putLong(header.length).put(header).putInt(1).putInt(2).putInt(3).putInt(4);
        Files.write(file, all.array());
        return Safetensors.open(file);
    }

    private Safetensors open(String header, int moreBytes) throws IOException {
        return open(header.getBytes(StandardCharsets.UTF_8), moreBytes);
    }

    private static void assertReadsX(Safetensors file) {
        try (file;
                Tensor x = file.read("x")) {
            assertThat(x.segment().toArray(ValueLayout.JAVA_INT)).containsExactly(1, 2, 3, 4);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "F8_E8M0, 16",
        "F8_E4M3, 16",
        "F8_E4M3FNUZ, 16",
        "F4, 8",
        "F6_E2M3, 12",
        "F6_E3M2, 12",
        "C64, 128",
        "X9, 77"
    })
    void tensorsOfOtherTypesBesideTheOneThatIsRead(String dtype, int bytes) throws IOException {
        String other =
                ",\"other\":{\"dtype\":\"" + dtype + "\",\"shape\":[16],\"data_offsets\":[16," + (16 + bytes) + "]}";
        assertReadsX(open("{" + X + other + "}", bytes));
        Safetensors file = open("{" + X + other + "}", bytes);
        assertThat(file.shape("other")).containsExactly(16);
        assertThatThrownBy(() -> file.read("other"))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("dtype=" + dtype);
        file.close();
    }

    @Test
    void packedElementsThatEndInsideAByte() {
        String other = ",\"other\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[16,17]}";
        assertThatThrownBy(() -> open("{" + X + other + "}", 1)).hasMessageContaining("dtype=F4");
    }

    @Test
    void aLongTextAndALongName() throws IOException {
        assertReadsX(open("{\"__metadata__\":{\"n\":\"" + "a".repeat(30_000_000) + "\"}," + X + "}", 0));
        String name = "n".repeat(60_000);
        assertReadsX(open("{" + X + ",\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}", 3));
    }

    @ParameterizedTest
    @ValueSource(strings = {"[1]", "\"a\"", "3", "null", "{\"a\":1}", "{\"a\":{}}"})
    void metadataThatIsNoMapOfText(String metadata) {
        assertThatThrownBy(() -> open("{\"__metadata__\":" + metadata + "," + X + "}", 0))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("metadata");
    }

    @ParameterizedTest
    @ValueSource(strings = {"UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE", "UTF-16"})
    void otherEncodings(String charset) {
        assertThatThrownBy(() -> open(("{" + X + "}").getBytes(Charset.forName(charset)), 0))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("has a header that");
    }

    @ParameterizedTest
    @ValueSource(strings = {"\uFEFF", " ", "\n"})
    void aHeaderThatDoesNotBeginWithABrace(String before) {
        assertThatThrownBy(() -> open(before + "{" + X + "}", 0))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("does not begin with '{'")
                .hasMessageContaining("firstByte=0x");
    }

    @Test
    void bytesThatAreNoText() {
        byte[] header = ("{\"a\u00e9\":1," + X + "}").getBytes(StandardCharsets.ISO_8859_1);
        assertThatThrownBy(() -> open(header, 0))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("not UTF-8");
    }

    @Test
    void rowsThatTheFileDoesNotHave() throws IOException {
        try (Safetensors file =
                        open("{" + X + ",\"y\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[16,32]}}", 16);
                Tensor two = Tensor.zeros(DType.I32, 2, 2);
                Tensor one = Tensor.zeros(DType.I32, 1, 2);
                Tensor other = Tensor.zeros(DType.F32, 1, 2)) {
            file.readRows("x", 1, 2, one);
            assertThat(one.segment().toArray(ValueLayout.JAVA_INT)).containsExactly(3, 4);
            for (long[] rows : new long[][] {{1, 3}, {-1, 1}, {2, 1}, {1L << 62, (1L << 62) + 1}}) {
                assertThatIllegalArgumentException()
                        .isThrownBy(() -> file.readRows("x", rows[0], rows[1], two))
                        .withMessageContaining("rows=2");
            }
            assertThatIllegalArgumentException().isThrownBy(() -> file.readRows("x", 0, 2, one));
            assertThatIllegalArgumentException().isThrownBy(() -> file.readRows("x", 0, 1, other));
        }
    }

    @Test
    void namesThatNoFileCanHold() {
        Path file = folder.resolve("out");
        try (Tensor x = Tensor.zeros(DType.F32, 1)) {
            assertThatIllegalArgumentException().isThrownBy(() -> Safetensors.write(file, Map.of("__metadata__", x)));
            assertThat(file).doesNotExist();
        }
    }
}
