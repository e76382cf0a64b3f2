package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.ConvCase;
import dev.kcp.launcher.Main;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** More ranks than cores: 16 threads and 8 processes write the file that one rank writes, to the byte. */
class ManyRanksTest {
    /** A halo over three ranks, ranks that hold the middle of one document, and one that holds many. */
    private static final int[] LENGTHS = {1500, 2, 1, 0, 3, 70, 64, 640, 5, 5, 5, 5};

    @TempDir
    private Path folder;

    private Path in;
    private byte[] ofOneRank;

    @BeforeEach
    void runOnOneRank() throws IOException {
        in = folder.resolve("in.safetensors");
        try (ConvCase batch = ConvCase.random(10, 40, LENGTHS)) {
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            tensors.put("x", batch.x());
            tensors.put("dy", batch.dy());
            tensors.put("weight", batch.weight());
            tensors.put("cu_seqlens", batch.offsets());
            Safetensors.write(in, tensors);
        }
        ofOneRank = inThisJvm("--world", "1");
    }

    private String[] command(Path out, String... options) {
        String[] common = {
            "conv", "--in", in.toString(), "--out", out.toString(), "--backward", "--handle", "--align", "64"
        };
        String[] all = new String[common.length + options.length];
        System.arraycopy(common, 0, all, 0, common.length);
        System.arraycopy(options, 0, all, common.length, options.length);
        return all;
    }

    private byte[] inThisJvm(String... options) throws IOException {
        Path out = folder.resolve("out.safetensors");
        PrintStream stdout = System.out;
        System.setOut(new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8));
        try {
            assertThat(Main.run(Map.of(), command(out, options))).isZero();
        } finally {
            System.setOut(stdout);
        }
        return Files.readAllBytes(out);
    }

    @ParameterizedTest
    @ValueSource(strings = {"contiguous", "zigzag", "zigzagPerDocument"})
    void sixteenThreads(String layout) throws IOException {
        assertThat(inThisJvm("--world", "16", "--layout", layout)).isEqualTo(ofOneRank);
    }

    @Test
    void eightProcesses() throws IOException {
        Path out = folder.resolve("processes.safetensors");
        KcpProcess.Result result =
                KcpProcess.run(command(out, "--world", "8", "--transport", "tcp", "--layout", "zigzag"));
        assertThat(result.exitCode()).as(result.err()).isZero();
        assertThat(Files.readAllBytes(out)).isEqualTo(ofOneRank);
    }
}
