package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Vectors that PyTorch made in FP64, independent of this project. */
public class GoldenTest {
    /** Files round their expectation of y and dx not at all, so BF16's own rounding remains: 2^-8 relative. */
    private static final double ROUNDED_L2 = 4e-3;

    @TestFactory
    Stream<DynamicTest> ownVectors() throws IOException, URISyntaxException {
        return tests(Path.of(GoldenTest.class.getResource("/golden").toURI()));
    }

    @TestFactory
    Stream<DynamicTest> allVectorsBesideTheProject() throws IOException {
        Path folder = Path.of(System.getProperty("kcp.root", ".."), "../shared/golden");
        assumeTrue(Files.isDirectory(folder), "no golden vectors beside the project");
        return tests(folder);
    }

    @Test
    void vectorsAreThere() throws URISyntaxException, IOException {
        assertThat(files(Path.of(GoldenTest.class.getResource("/golden").toURI())))
                .hasSize(6);
    }

    private static List<Path> files(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(file -> file.toString().endsWith(".safetensors"))
                    .sorted()
                    .toList();
        }
    }

    private static Stream<DynamicTest> tests(Path folder) throws IOException {
        return files(folder).stream().flatMap(file -> Stream.of(SiluGradPolicy.values())
                .map(policy -> dynamicTest(file.getFileName() + " " + policy, () -> check(file, policy))));
    }

    private static void check(Path path, SiluGradPolicy policy) {
        String suffix = "_" + policy.name().toLowerCase(Locale.ROOT);
        try (Safetensors file = Safetensors.open(path);
                CpuConvEngine engine = new CpuConvEngine(2);
                Tensor x = file.read("x");
                Tensor dy = file.read("dy");
                Tensor weight = file.read("weight");
                Tensor offsets = file.read("cu_seqlens");
                Tensor bias = file.has("bias") ? file.read("bias") : null;
                Tensor dx = Tensor.zeros(DType.BF16, x.shape());
                Tensor dweight = Tensor.zeros(DType.F32, weight.shape());
                Tensor dbias = bias == null ? null : Tensor.zeros(DType.F32, bias.shape())) {
            CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT.withPolicy(policy));
            try (Tensor y = conv.forward(x, weight, bias, offsets, null)) {
                near(file, "y", y, ROUNDED_L2);
            }
            conv.backward(x, weight, bias, offsets, dy, new Gradients(dx, dweight, dbias));
            near(file, "dx" + suffix, dx, ROUNDED_L2);
            double sums = policy == SiluGradPolicy.FP32 ? Tolerance.SUMS_FP32 : Tolerance.SUMS_BF16;
            near(file, "dweight" + suffix, dweight, sums);
            if (bias != null) {
                near(file, "dbias" + suffix, dbias, sums);
            }
        }
    }

    private static void near(Safetensors file, String name, Tensor got, double limit) {
        try (Tensor expected = file.read(name)) {
            assertThat(Tolerance.relativeL2(got, ConvCase.numbers(expected)))
                    .as(name)
                    .isLessThanOrEqualTo(limit);
        }
    }
}
