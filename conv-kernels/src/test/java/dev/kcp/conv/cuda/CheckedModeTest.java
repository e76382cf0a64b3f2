package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.io.File;
import java.lang.foreign.ValueLayout;
import java.net.URISyntaxException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Checked mode finds wrong offsets where they lie, and says which launch failed. */
@NeedsGpu
class CheckedModeTest {
    private static final ConvOptions SLACK = new ConvOptions(SiluGradPolicy.BF16, ConvMath.FAST, true);

    private static CudaDevice device;
    private static CudaStream stream;
    private static CudaConvEngine checked;

    @BeforeAll
    static void open() {
        device = CudaDevice.open(0);
        stream = CudaStream.create(device);
        checked = CudaConvEngine.on(stream, true);
    }

    @AfterAll
    static void close() {
        checked.close();
        stream.close();
        device.close();
    }

    /** Offsets of a batch of so many rows that must be refused before y or dx is touched. */
    private static void assertRefused(int rows, ConvOptions options, String message, int... offsets) {
        try (ConvCase in = ConvCase.random(1, 8, rows);
                Tensor host = ConvCase.ints(offsets);
                Tensor wrong = stream.upload(host);
                OnDevice gpu = new OnDevice(checked, in, DType.F32)) {
            CausalConv1d conv = new CausalConv1d(checked, options);
            assertThatThrownBy(() -> conv.forward(gpu.x, gpu.weight, null, wrong, gpu.y))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageEndingWith(message);
            assertThatThrownBy(() -> conv.backward(gpu.x, gpu.weight, null, wrong, gpu.dy, gpu.gradients))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageEndingWith(message);
            for (Tensor untouched : new Tensor[] {gpu.y, gpu.gradients.dx(), gpu.gradients.dweight()}) {
                assertThat(gpu.host(untouched).segment().toArray(ValueLayout.JAVA_BYTE))
                        .containsOnly(0xFF);
            }
        }
    }

    @Test
    void case18OffsetsThatAreNone() {
        assertRefused(9, ConvOptions.DEFAULT, "cu_seqlens[1]=6 cu_seqlens[2]=5", 0, 6, 5, 9);
        assertRefused(9, ConvOptions.DEFAULT, "cu_seqlens[0]=1", 1, 6, 9);
        assertRefused(9, ConvOptions.DEFAULT, "cu_seqlens[0]=-1", -1, 9);
        assertRefused(9, ConvOptions.DEFAULT, "end=10 S=9", 0, 10);
        assertRefused(946, ConvOptions.DEFAULT, "end=944 S=946", 0, 900, 944);
        assertRefused(9, SLACK, "end=10 S=9", 0, 10);
        assertRefused(9, SLACK, "cu_seqlens[2]=-3", 0, 0, -3);
    }

    /** The first of several faults is named, wherever it lies among more offsets than the kernel has threads. */
    @Test
    void theFirstFaultOfManyDocuments() {
        for (int fault : new int[] {1, 2, 1023, 1024, 1025, 2048, 5000}) {
            int[] offsets = new int[5001];
            for (int i = 0; i < offsets.length; i++) {
                offsets[i] = 2 * i;
            }
            offsets[fault] = 2 * fault - 3;
            offsets[5000] = fault == 5000 ? offsets[5000] : 1;
            assertRefused(
                    10,
                    SLACK,
                    "cu_seqlens[" + (fault - 1) + "]=" + (2 * fault - 2) + " cu_seqlens[" + fault + "]="
                            + (2 * fault - 3),
                    offsets);
        }
    }

    @Test
    void rightOffsetsGiveTheBitsOfTheUncheckedMode() {
        int[] lengths = new int[3000];
        for (int i = 0; i < lengths.length; i++) {
            lengths[i] = i % 3;
        }
        try (CudaConvEngine unchecked = CudaConvEngine.on(stream, false);
                ConvCase in = ConvCase.random(2, 24, lengths);
                OnDevice got = new OnDevice(checked, in, DType.F32).run(ConvOptions.DEFAULT);
                OnDevice want = new OnDevice(unchecked, in, DType.F32).run(ConvOptions.DEFAULT)) {
            Tolerance.assertSameBits("y", got.host(got.y), want.host(want.y));
            Tolerance.assertSameBits("dx", got.host(got.gradients.dx()), want.host(want.gradients.dx()));
            Tolerance.assertSameBits("dweight", got.host(got.gradients.dweight()), want.host(want.gradients.dweight()));
        }
    }

    @Test
    void aCaptureIsRefusedAndTheStreamStillServes() {
        try (ConvCase in = ConvCase.random(3, 8, 9);
                OnDevice gpu = new OnDevice(checked, in, DType.F32)) {
            assertThatThrownBy(() -> CudaGraph.capture(stream, () -> gpu.run(ConvOptions.DEFAULT)))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("a graph capture cannot hold");
            gpu.run(ConvOptions.DEFAULT);
        }
    }

    /** A fault on the device ends a context for good, so it happens in a process of its own. */
    @Test
    void case34AFailedLaunchIsNamedByTheCallThatMadeIt() throws Exception {
        for (String call : new String[] {"forward", "backward"}) {
            Process process = new ProcessBuilder(
                            ProcessHandle.current().info().command().orElseThrow(),
                            "--add-modules=jdk.incubator.vector",
                            "--enable-native-access=ALL-UNNAMED",
                            "-cp",
                            classPath(),
                            FaultyLaunch.class.getName(),
                            call)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(process.waitFor(Eventually.LIMIT)).isTrue();
            assertThat(output)
                    .contains("CUDA_ERROR_ILLEGAL_ADDRESS")
                    .contains("kernel=" + call + "_main_fast_")
                    .contains("code=RANK_FAILED");
        }
    }

    /** The tests' own, also where a console launcher loads them by a loader of its own. */
    private static String classPath() throws URISyntaxException {
        List<String> entries = new ArrayList<>(List.of(System.getProperty("java.class.path")));
        if (CheckedModeTest.class.getClassLoader() instanceof URLClassLoader loader) {
            for (URL entry : loader.getURLs()) {
                entries.add(Path.of(entry.toURI()).toString());
            }
        }
        return String.join(File.pathSeparator, entries);
    }
}
