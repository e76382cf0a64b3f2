package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.ReferenceConv;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** The GPU against the CPU, bit for bit with portable math, and against the FP64 reference with fast math. */
@NeedsGpu
class CudaParityTest {
    private static final DType[] PARAMETER_TYPES = {DType.F32, DType.BF16};

    private static CudaConvEngine cuda;
    private static CpuConvEngine cpu;

    @BeforeAll
    static void open() {
        cuda = CudaConvEngine.open(0);
        cpu = new CpuConvEngine(4);
    }

    @AfterAll
    static void close() {
        cuda.close();
        cpu.close();
    }

    static ConvOptions options(SiluGradPolicy policy, ConvMath math) {
        return new ConvOptions(policy, math, false);
    }

    /** Lengths that end around leaves, groups and chunks, and tiny and empty documents. */
    static int[] lengths(Random random) {
        int[] lengths = new int[1 + random.nextInt(30)];
        for (int i = 0; i < lengths.length; i++) {
            lengths[i] = switch (random.nextInt(8)) {
                case 0, 1, 2 -> random.nextInt(5);
                case 3 -> 60 + random.nextInt(9);
                case 4 -> 508 + random.nextInt(9);
                case 5 -> 120 + random.nextInt(17);
                default -> random.nextInt(40);
            };
        }
        return lengths;
    }

    static Stream<Integer> seeds() {
        return Stream.iterate(0, seed -> seed + 1).limit(120);
    }

    @ParameterizedTest
    @MethodSource("seeds")
    void portableMathHasTheBitsOfTheCpu(int seed) {
        Random random = new Random(seed);
        int[] channels = {8, 24, 64, 128, 136, 264};
        DType biasType = random.nextInt(3) == 0 ? null : PARAMETER_TYPES[random.nextInt(2)];
        DType gradientType = PARAMETER_TYPES[random.nextInt(2)];
        try (ConvCase in = ConvCase.random(
                seed,
                channels[random.nextInt(channels.length)],
                PARAMETER_TYPES[random.nextInt(2)],
                biasType,
                lengths(random))) {
            for (SiluGradPolicy policy : SiluGradPolicy.values()) {
                assertCpuBits(in, options(policy, ConvMath.PORTABLE), gradientType);
            }
        }
    }

    private static void assertCpuBits(ConvCase in, ConvOptions options, DType gradientType) {
        CausalConv1d oracle = new CausalConv1d(cpu, options);
        try (OnDevice gpu = new OnDevice(cuda, in, gradientType).run(options);
                Tensor y = oracle.forward(in.x(), in.weight(), in.bias(), in.offsets(), null);
                Gradients expected = new Gradients(
                        Tensor.zeros(DType.BF16, in.rows(), in.channels()),
                        Tensor.zeros(gradientType, in.channels(), 4),
                        in.bias() == null ? null : Tensor.zeros(gradientType, in.channels()))) {
            oracle.backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), expected);
            Tolerance.assertSameBits("y", gpu.host(gpu.y), y);
            Tolerance.assertSameBits("dx", gpu.host(gpu.gradients.dx()), expected.dx());
            Tolerance.assertSameBits("dweight", gpu.host(gpu.gradients.dweight()), expected.dweight());
            if (in.bias() != null) {
                Tolerance.assertSameBits("dbias", gpu.host(gpu.gradients.dbias()), expected.dbias());
            }
        }
    }

    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void fastMathMatchesTheReference(SiluGradPolicy policy) {
        for (int seed = 1000; seed < 1012; seed++) {
            Random random = new Random(seed);
            try (ConvCase in = ConvCase.random(seed, 40, DType.F32, seed % 2 == 0 ? DType.F32 : null, lengths(random));
                    OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(options(policy, ConvMath.FAST))) {
                ReferenceConv.Result expected = ReferenceConv.run(in, policy);
                Tolerance.assertY(gpu.host(gpu.y), expected);
                Tolerance.assertDx(gpu.host(gpu.gradients.dx()), expected);
                Tolerance.assertSums(
                        gpu.host(gpu.gradients.dweight()),
                        in.bias() == null ? null : gpu.host(gpu.gradients.dbias()),
                        expected,
                        policy);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void goldenFilesHaveTheBitsOfTheCpu(SiluGradPolicy policy) throws IOException, URISyntaxException {
        URI own = ConvCase.class.getResource("/golden").toURI();
        List<Path> folders = new ArrayList<>();
        if (own.getScheme().equals("file")) {
            folders.add(Path.of(own));
        }
        Path beside = Path.of(System.getProperty("kcp.root", "."), "../shared/golden");
        if (Files.isDirectory(beside)) {
            folders.add(beside);
        }
        assertThat(folders).as("folders of golden files").isNotEmpty();
        for (Path folder : folders) {
            try (Stream<Path> files = Files.list(folder)) {
                for (Path path : files.filter(file -> file.toString().endsWith(".safetensors"))
                        .toList()) {
                    try (Safetensors file = Safetensors.open(path);
                            ConvCase in = caseOf(file)) {
                        assertCpuBits(in, options(policy, ConvMath.PORTABLE), DType.F32);
                        assertNearGolden(file, in, policy);
                    }
                }
            }
        }
    }

    private static ConvCase caseOf(Safetensors file) {
        Tensor offsets = file.read("cu_seqlens");
        int[] cuSeqlens = offsets.segment().toArray(java.lang.foreign.ValueLayout.JAVA_INT);
        return new ConvCase(
                cuSeqlens,
                file.read("x"),
                file.read("weight"),
                file.has("bias") ? file.read("bias") : null,
                offsets,
                file.read("dy"));
    }

    private static void assertNearGolden(Safetensors file, ConvCase in, SiluGradPolicy policy) {
        String name = "dweight_" + policy.name().toLowerCase(java.util.Locale.ROOT);
        double limit = policy == SiluGradPolicy.FP32 ? Tolerance.SUMS_FP32 : Tolerance.SUMS_BF16;
        try (OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(options(policy, ConvMath.FAST));
                Tensor expected = file.read(name)) {
            double[][] numbers = new double[in.channels()][4];
            for (int c = 0; c < numbers.length; c++) {
                for (int k = 0; k < 4; k++) {
                    numbers[c][k] = ConvCase.get(expected, c, k);
                }
            }
            assertThat(Tolerance.relativeL2(gpu.host(gpu.gradients.dweight()), numbers))
                    .as(name)
                    .isLessThanOrEqualTo(limit);
        }
    }

    @ParameterizedTest
    @EnumSource(ConvMath.class)
    void infinitePreactivationsMakeNoNan(ConvMath math) {
        try (ConvCase in = ConvCase.random(5, 16, 40, 30)) {
            for (int row : new int[] {10, 50}) {
                for (int c = 0; c < in.channels(); c++) {
                    ConvCase.set(in.x(), row, c, (c & 1) == 0 ? Float.POSITIVE_INFINITY : Float.NEGATIVE_INFINITY);
                }
            }
            for (int c = 0; c < in.channels(); c++) {
                for (int k = 0; k < 4; k++) {
                    ConvCase.set(in.weight(), c, k, 1);
                }
            }
            try (OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(options(SiluGradPolicy.BF16, math))) {
                Tensor y = gpu.host(gpu.y);
                Tensor dx = gpu.host(gpu.gradients.dx());
                for (int row = 0; row < in.rows(); row++) {
                    for (int c = 0; c < in.channels(); c++) {
                        boolean reached = row >= 10 && row < 14 || row >= 50 && row < 54;
                        double value = ConvCase.get(y, row, c);
                        assertThat(value).as("y[%d][%d]", row, c).isNotNaN();
                        assertThat(Double.isInfinite(value))
                                .as("y[%d][%d]=%s", row, c, value)
                                .isEqualTo(reached && (c & 1) == 0);
                        assertThat(ConvCase.get(dx, row, c))
                                .as("dx[%d][%d]", row, c)
                                .isFinite();
                    }
                }
            }
        }
    }

    @Test
    void bitsAreTheSameInEveryRun() {
        try (ConvCase in = ConvCase.random(9, 256, DType.F32, DType.F32, lengths(new Random(9)));
                OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(ConvOptions.DEFAULT)) {
            Tensor y = gpu.host(gpu.y);
            Tensor dx = gpu.host(gpu.gradients.dx());
            Tensor dweight = gpu.host(gpu.gradients.dweight());
            for (int i = 0; i < 50; i++) {
                gpu.poisonResults();
                gpu.run(ConvOptions.DEFAULT);
                Tolerance.assertSameBits("y", gpu.host(gpu.y), y);
                Tolerance.assertSameBits("dx", gpu.host(gpu.gradients.dx()), dx);
                Tolerance.assertSameBits("dweight", gpu.host(gpu.gradients.dweight()), dweight);
            }
        }
    }

    @Test
    void misalignedAddressIsRefusedBeforeLaunch() {
        try (Memory memory = cuda.stream().allocate(4096);
                ConvCase in = ConvCase.random(1, 8, 4);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32)) {
            Tensor shifted = Tensor.over(
                    Memory.borrow(cuda.device(), memory.address() + 2, 4000), DType.BF16, in.rows(), in.channels());
            CausalConv1d conv = new CausalConv1d(cuda, ConvOptions.DEFAULT);
            assertThatThrownBy(() -> conv.forward(shifted, gpu.weight, null, gpu.offsets, gpu.y))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("x must start at a multiple of 16 bytes: address=0x");
            assertThatThrownBy(() -> conv.backward(gpu.x, gpu.weight, null, gpu.offsets, shifted, gpu.gradients))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("dy must start");
        }
    }
}
