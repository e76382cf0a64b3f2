package dev.kcp.multirank;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.GoldenTest;
import dev.kcp.conv.ReferenceConv;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.launcher.Main;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code kcp conv}: any world, layout and transport against world 1, and world 1 against what PyTorch computed. */
class ConvCommandTest {
    private static final String[] LAYOUTS = {"contiguous", "zigzag", "zigzagPerDocument"};

    @TempDir
    private Path folder;

    private static Stream<Path> vectors() throws IOException {
        List<Path> files = new ArrayList<>();
        Path beside = Path.of(System.getProperty("kcp.root"), "../shared/golden");
        if (Files.isDirectory(beside)) {
            try (Stream<Path> all = Files.list(beside)) {
                all.filter(file -> file.toString().endsWith(".safetensors"))
                        .sorted()
                        .forEach(files::add);
            }
        }
        Path own = Files.createTempDirectory("kcp-golden-");
        for (String name : List.of("tiny_docs", "weight_bf16_bias_fp32", "saturated")) {
            Path file = own.resolve(name + ".safetensors");
            Files.write(
                    file,
                    GoldenTest.class
                            .getResourceAsStream("/golden/" + file.getFileName())
                            .readAllBytes());
            files.add(file);
        }
        return files.stream();
    }

    /** Runs the command in this JVM; returns its JSON summary. */
    private static JsonNode conv(String... args) {
        PrintStream stdout = System.out;
        ByteArrayOutputStream captured = new ByteArrayOutputStream();
        System.setOut(new PrintStream(captured, true, StandardCharsets.UTF_8));
        try {
            List<String> command = new ArrayList<>(List.of("conv"));
            command.addAll(List.of(args));
            assertThat(Main.run(Map.of(), command.toArray(String[]::new))).isZero();
        } finally {
            System.setOut(stdout);
        }
        return json(captured.toString(StandardCharsets.UTF_8));
    }

    private static JsonNode json(String stdout) {
        List<String> lines = stdout.lines().toList();
        assertThat(lines).as("stdout carries the summary alone").hasSize(1);
        try {
            return new ObjectMapper().readTree(lines.getFirst());
        } catch (JsonProcessingException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void assertSameResults(Path got, Path expected, boolean sumsToo) {
        try (Safetensors a = Safetensors.open(got);
                Safetensors b = Safetensors.open(expected)) {
            assertThat(a.names()).isEqualTo(b.names());
            for (String name : a.names()) {
                try (Tensor mine = a.read(name);
                        Tensor theirs = b.read(name)) {
                    if (sumsToo || name.equals("y") || name.equals("dx")) {
                        assertSameBits(name, mine, theirs);
                    } else {
                        assertThat(Tolerance.relativeL2(mine, ConvCase.numbers(theirs)))
                                .as(name)
                                .isLessThanOrEqualTo(Tolerance.SUMS_FP32);
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("vectors")
    void worldsOneToFiveAsThreads(Path in) {
        Path alone = folder.resolve("alone.safetensors");
        Path out = folder.resolve("out.safetensors");
        conv("--in", "" + in, "--out", "" + alone, "--backward", "--policy", "fp32");
        for (int world = 2; world <= 5; world++) {
            String layout = LAYOUTS[world % 3];
            JsonNode summary = conv(
                    "--in",
                    "" + in,
                    "--out",
                    "" + out,
                    "--backward",
                    "--policy",
                    "fp32",
                    "--world",
                    "" + world,
                    "--layout",
                    layout,
                    "--handle");
            assertSameResults(out, alone, summary.get("tree_exact").asBoolean());
            assertThat(summary.get("world").asInt()).isEqualTo(world);
            assertThat(summary.get("layout").asText()).isEqualTo(layout);
            assertThat(summary.get("transport").asText()).isEqualTo("local");
            assertThat(summary.get("exchanges").toString()).isEqualTo("{\"forward\":1,\"recompute\":0,\"backward\":1}");
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 5})
    void worldsAsProcesses(int world) throws IOException {
        Path in = vectors()
                .filter(file -> file.endsWith("tiny_docs.safetensors"))
                .findFirst()
                .orElseThrow();
        Path alone = folder.resolve("alone.safetensors");
        Path out = folder.resolve("out.safetensors");
        conv("--in", "" + in, "--out", "" + alone, "--backward");
        try (KcpProcess kcp = KcpProcess.start(
                "conv",
                "--in",
                "" + in,
                "--out",
                "" + out,
                "--backward",
                "--transport",
                "tcp",
                "--world",
                "" + world,
                "--handle",
                "--layout",
                "zigzag")) {
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).as(result.err()).isZero();
            JsonNode summary = json(result.out());
            assertThat(summary.get("transport").asText()).isEqualTo("tcp");
            assertThat(summary.get("exchanges").toString()).isEqualTo("{\"forward\":1,\"recompute\":0,\"backward\":1}");
        }
        assertSameResults(out, alone, false);
    }

    @Test
    void haloBytesAreThoseOfThePlan() {
        Path in = batch(16, new int[] {16}, 16);
        JsonNode summary = conv("--in", "" + in, "--out", "" + folder.resolve("o"), "--backward", "--world", "2");
        assertThat(summary.get("halo_bytes").get("forward").asLong()).isEqualTo(3 * 16 * 2);
        assertThat(summary.get("halo_bytes").get("backward").asLong()).isEqualTo(3 * 16 * 4);
    }

    @Test
    void slackRowsBecomeZerosOnAnyWorld() {
        Path in = batch(16, new int[] {9, 4}, 20);
        for (int world = 1; world <= 3; world++) {
            Path out = folder.resolve("slack" + world);
            conv("--in", "" + in, "--out", "" + out, "--backward", "--slack", "--world", "" + world);
            try (Safetensors file = Safetensors.open(out);
                    Tensor y = file.read("y");
                    Tensor dx = file.read("dx")) {
                assertThat(y.rows()).isEqualTo(20);
                for (Tensor tensor : List.of(y, dx)) {
                    byte[] slack = tensor.rows(13, 20).segment().toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
                    assertThat(slack).containsOnly(0);
                }
            }
            assertSameResults(out, folder.resolve("slack1"), false);
        }
    }

    @Test
    void fragmentsFileInAnyOrder() throws IOException {
        Path in = batch(16, new int[] {9, 4}, 13);
        Path fragments =
                Files.writeString(folder.resolve("fragments.json"), "[[[1,0,4],[0,3,2]],[],[[0,5,4],[0,0,3]]]");
        Path alone = folder.resolve("alone");
        Path out = folder.resolve("out");
        conv("--in", "" + in, "--out", "" + alone, "--backward");
        JsonNode summary =
                conv("--in", "" + in, "--out", "" + out, "--backward", "--fragments", "" + fragments, "--handle");
        assertThat(summary.get("world").asInt()).isEqualTo(3);
        assertThat(summary.get("layout").asText()).isEqualTo("fragments");
        assertSameResults(out, alone, false);
    }

    @Test
    void alignedCutsGiveTheSameBitsOfAllGradients() {
        Path in = batch(24, new int[] {100, 3, 0, 200, 17}, 320);
        Path alone = folder.resolve("alone");
        conv("--in", "" + in, "--out", "" + alone, "--backward");
        for (String layout : new String[] {"contiguous", "zigzag"}) {
            Path out = folder.resolve(layout);
            JsonNode summary = conv(
                    "--in",
                    "" + in,
                    "--out",
                    "" + out,
                    "--backward",
                    "--world",
                    "3",
                    "--layout",
                    layout,
                    "--align",
                    "64");
            assertThat(summary.get("tree_exact").asBoolean()).isTrue();
            assertSameResults(out, alone, true);
        }
    }

    @Test
    void gradientsInTheParametersTypes() {
        Path in = folder.resolve("half.safetensors");
        try (ConvCase batch = ConvCase.random(3, 16, DType.BF16, DType.F32, 20, 5)) {
            write(in, batch);
            Path out = folder.resolve("out");
            conv("--in", "" + in, "--out", "" + out, "--backward", "--grad-dtype", "param", "--policy", "fp32");
            try (Safetensors file = Safetensors.open(out);
                    Tensor dbias = file.read("dbias")) {
                assertThat(file.dtypeName("dweight")).isEqualTo("BF16");
                assertThat(file.dtypeName("dbias")).isEqualTo("F32");
                double[] expected =
                        ReferenceConv.run(batch, SiluGradPolicy.FP32).dbias();
                assertThat(Tolerance.relativeL2(dbias, new double[][] {expected}))
                        .isLessThanOrEqualTo(Tolerance.SUMS_FP32);
            }
        }
    }

    /** A file with documents of these lengths and perhaps slack rows after them. */
    private Path batch(int channels, int[] lengths, int rows) {
        int tokens = Arrays.stream(lengths).sum();
        Path path = folder.resolve("batch" + rows + ".safetensors");
        int[] padded = Arrays.copyOf(lengths, lengths.length + 1);
        padded[lengths.length] = rows - tokens;
        try (ConvCase all = ConvCase.random(9, channels, padded);
                Tensor offsets = ConvCase.ints(Arrays.copyOf(all.cuSeqlens(), lengths.length + 1))) {
            write(path, new ConvCase(all.cuSeqlens(), all.x(), all.weight(), null, offsets, all.dy()));
        }
        return path;
    }

    private static void write(Path path, ConvCase batch) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        tensors.put("x", batch.x());
        tensors.put("weight", batch.weight());
        tensors.put("cu_seqlens", batch.offsets());
        tensors.put("dy", batch.dy());
        if (batch.bias() != null) {
            tensors.put("bias", batch.bias());
        }
        Safetensors.write(path, tensors);
    }
}
