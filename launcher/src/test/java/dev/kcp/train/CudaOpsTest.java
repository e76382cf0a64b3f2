package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.BothEngines.Both;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Every program on the GPU against the CPU's on the same BF16 numbers, by relative L2 error: BF16 results are rounded once,
 * which alone gives about 0.0017; FP32 sums differ in their order.
 */
@NeedsGpu
class CudaOpsTest {
    private static final double ROUNDED = 3e-3;
    private static final double SUMMED = 1e-5;

    private final Random random = new Random(5);
    private BothEngines both;

    @BeforeEach
    void open() {
        both = new BothEngines();
    }

    @AfterEach
    void close() {
        both.close();
    }

    /** Rows and tile rows, channels, and where nodes end: one tile and many, whole leaves and a ragged end. */
    static Stream<Arguments> geometries() {
        return Stream.of(
                Arguments.of(BothEngines.tiles(1, 1), 8),
                Arguments.of(BothEngines.tiles(37, 37), 24),
                Arguments.of(BothEngines.tiles(64, 64), 64),
                Arguments.of(BothEngines.tiles(130, 64, 1), 256),
                Arguments.of(BothEngines.tiles(1000, 128, 2, 3), 1032),
                Arguments.of(BothEngines.tiles(64 * 53 + 7, 64, 32, 48), 72),
                Arguments.of(BothEngines.tiles(3001, 3001), 512));
    }

    @ParameterizedTest
    @MethodSource("geometries")
    void normAndItsGradients(Tiles tiles, int channels) {
        int rows = tiles.rows();
        Both x = both.rows(random, rows, channels);
        Both gain = both.floats(random, channels);
        Both y = both.poisoned(rows, channels);
        Both rms = both.zeros(DType.F32, rows, 1);
        both.cpu.norm(x.cpu(), gain.cpu(), y.cpu(), rms.cpu());
        both.gpu.norm(x.gpu(), gain.gpu(), y.gpu(), rms.gpu());
        assertClose("y", y, ROUNDED);
        assertClose("inverse rms", rms, SUMMED);

        Both dy = both.rows(random, rows, channels);
        Both dx = both.rows(random, rows, channels);
        Both sums = both.floats(random, tiles.nodes().size(), channels);
        both.cpu.normBackward(tiles, x.cpu(), gain.cpu(), rms.cpu(), dy.cpu(), dx.cpu(), sums.cpu());
        both.gpu.normBackward(tiles, x.gpu(), gain.gpu(), rms.gpu(), dy.gpu(), dx.gpu(), sums.gpu());
        assertClose("dx", dx, ROUNDED);
        assertClose("gain", sums, SUMMED);
    }

    @ParameterizedTest
    @MethodSource("geometries")
    void productsByRow(Tiles tiles, int channels) {
        int wide = channels + 40;
        Both x = both.rows(random, tiles.rows(), channels);
        Both weight = both.rows(random, channels, wide);
        Both turned = both.rows(random, wide, channels);
        Both plus = both.rows(random, tiles.rows(), wide);
        for (boolean transposed : new boolean[] {false, true}) {
            for (boolean adds : new boolean[] {false, true}) {
                Both w = transposed ? turned : weight;
                Both y = both.poisoned(tiles.rows(), wide);
                both.cpu.multiply(tiles, x.cpu(), w.cpu(), transposed, adds ? plus.cpu() : null, y.cpu());
                both.gpu.multiply(tiles, x.gpu(), w.gpu(), transposed, adds ? plus.gpu() : null, y.gpu());
                assertClose("transposed=" + transposed + " adds=" + adds, y, ROUNDED);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("geometries")
    void weightGradients(Tiles tiles, int channels) {
        int wide = channels + 8;
        Both x = both.rows(random, tiles.rows(), channels);
        Both dy = both.rows(random, tiles.rows(), wide);
        Both sums = both.floats(random, tiles.nodes().size(), (long) channels * wide);
        both.cpu.weightGradient(tiles, x.cpu(), dy.cpu(), sums.cpu());
        both.gpu.weightGradient(tiles, x.gpu(), dy.gpu(), sums.gpu());
        assertClose("sums", sums, SUMMED);
        assertEmptyNodeIsZero(tiles, sums.gpu());
    }

    @ParameterizedTest
    @MethodSource("geometries")
    void tokenVectorsAndTheirGradient(Tiles tiles, int channels) {
        int rows = tiles.rows();
        Both tokens = both.tokens(random, rows);
        Both vectors = both.rows(random, ModelShape.VOCABULARY, channels);
        Both stream = both.poisoned(rows, channels);
        both.cpu.embed(tokens.cpu(), vectors.cpu(), stream.cpu());
        both.gpu.embed(tokens.gpu(), vectors.gpu(), stream.gpu());
        assertThat(both.ofGpu(stream.gpu())).isEqualTo(both.ofCpu(stream.cpu()));

        Both dLogits = both.rows(random, rows, ModelShape.VOCABULARY);
        Both normed = both.rows(random, rows, channels);
        Both dStream = both.rows(random, rows, channels);
        Both sums = both.floats(random, tiles.nodes().size(), (long) ModelShape.VOCABULARY * channels);
        both.cpu.embedBackward(tiles, dLogits.cpu(), normed.cpu(), tokens.cpu(), dStream.cpu(), sums.cpu());
        both.gpu.embedBackward(tiles, dLogits.gpu(), normed.gpu(), tokens.gpu(), dStream.gpu(), sums.gpu());
        assertClose("sums", sums, SUMMED);
        assertEmptyNodeIsZero(tiles, sums.gpu());
    }

    @ParameterizedTest
    @MethodSource("geometries")
    void crossEntropyAndItsGradient(Tiles tiles, int channels) {
        Both logits = both.rows(random, tiles.rows(), ModelShape.VOCABULARY);
        Both targets = both.tokens(random, tiles.rows());
        Both sums = both.zeros(DType.F64, tiles.nodes().size(), 1);
        float scale = 1f / channels;
        both.cpu.crossEntropy(tiles, logits.cpu(), targets.cpu(), scale, sums.cpu());
        both.gpu.crossEntropy(tiles, logits.gpu(), targets.gpu(), scale, sums.gpu());
        assertClose("loss", sums, 1e-6);
        assertClose("gradient", logits, ROUNDED);
        assertEmptyNodeIsZero(tiles, sums.gpu());
    }

    @Test
    void nanInOneRowReachesTheLoss() {
        Tiles tiles = BothEngines.tiles(70, 64);
        Tensor logits = both.poisoned(70, ModelShape.VOCABULARY).gpu();
        Tensor targets = both.tokens(random, 70).gpu();
        Tensor sums = both.zeros(DType.F64, tiles.nodes().size(), 1).gpu();
        both.gpu.crossEntropy(tiles, logits, targets, 1, sums);
        assertThat(both.ofGpu(sums)[0]).isNaN();
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 88, 264})
    void optimizerHasTheBitsOfTheCpu(int channels) {
        ParameterTable table = new ParameterTable(new ModelShape(2, channels));
        try (ParameterBuffer host = random(table);
                Weights cpuWeights = new Weights(both.cpu, table);
                Weights gpuWeights = new Weights(both.gpu, table);
                AdamW cpuAdam = new AdamW(both.cpu, table, 0.1, 1);
                AdamW gpuAdam = new AdamW(both.gpu, table, 0.1, 1);
                ParameterBuffer cpuGradients = new ParameterBuffer(both.cpu, DType.F32, table);
                ParameterBuffer gpuGradients = new ParameterBuffer(both.gpu, DType.F32, table)) {
            Both norm = both.zeros(DType.F64, 1);
            cpuWeights.load(host);
            gpuWeights.load(host);
            for (int step = 1; step <= 3; step++) {
                try (ParameterBuffer gradients = random(table)) {
                    both.cpu.write(cpuGradients.flat(), gradients.flat().segment());
                    both.gpu.write(gpuGradients.flat(), gradients.flat().segment());
                }
                cpuAdam.prepare(step, 0.01);
                gpuAdam.prepare(step, 0.01);
                cpuAdam.step(cpuWeights, cpuGradients, norm.cpu());
                gpuAdam.step(gpuWeights, gpuGradients, norm.gpu());
                assertThat(both.ofGpu(norm.gpu())[0])
                        .isCloseTo(both.ofCpu(norm.cpu())[0], within(1e-12 * both.ofCpu(norm.cpu())[0]));
            }
            assertSame("values", cpuWeights.values(), gpuWeights.values());
            assertSame("first", cpuAdam.first(), gpuAdam.first());
            assertSame("second", cpuAdam.second(), gpuAdam.second());
            double[] rounded = Arrays.stream(both.ofCpu(cpuWeights.values().flat()))
                    .map(value -> BFloat16.round((float) value))
                    .toArray();
            assertThat(both.ofGpu(gpuWeights.forProducts().flat())).isEqualTo(rounded);
        }
    }

    @Test
    void gradientWithoutFiniteNormChangesNothing() {
        ParameterTable table = new ParameterTable(new ModelShape(1, 16));
        try (ParameterBuffer host = random(table);
                Weights weights = new Weights(both.gpu, table);
                AdamW adam = new AdamW(both.gpu, table, 0.1, 1);
                ParameterBuffer gradients = new ParameterBuffer(both.gpu, DType.F32, table)) {
            weights.load(host);
            double[] before = both.ofGpu(weights.values().flat());
            float[] infinite = new float[(int) table.bufferElements()];
            infinite[5] = Float.POSITIVE_INFINITY;
            both.gpu.write(gradients.flat(), MemorySegment.ofArray(infinite));
            adam.prepare(1, 0.01);
            adam.step(weights, gradients, both.zeros(DType.F64, 1).gpu());
            assertThat(both.ofGpu(weights.values().flat())).isEqualTo(before);
            assertThat(both.ofGpu(adam.first().flat())).containsOnly(0);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 1000})
    void copiesCastsAndAdds(int elements) {
        Both from = both.floats(random, elements);
        Tensor narrow = both.gpu.allocate(DType.BF16, elements);
        Tensor wide = both.gpu.allocate(DType.F32, elements);
        both.gpu.copy(from.gpu(), narrow);
        both.gpu.copy(narrow, wide);
        double[] rounded = Arrays.stream(both.ofCpu(from.cpu()))
                .map(value -> BFloat16.round((float) value))
                .toArray();
        assertThat(both.ofGpu(wide)).isEqualTo(rounded);
        both.gpu.copy(from.gpu(), wide);
        both.gpu.add(wide, from.gpu());
        assertThat(both.ofGpu(wide))
                .isEqualTo(Arrays.stream(both.ofCpu(from.cpu()))
                        .map(value -> 2 * value)
                        .toArray());
        both.gpu.zero(wide);
        assertThat(both.ofGpu(wide)).containsOnly(0);
        narrow.close();
        wide.close();
    }

    private ParameterBuffer random(ParameterTable table) {
        ParameterBuffer buffer = new ParameterBuffer(table);
        for (Parameter parameter : table.all()) {
            float[] values = new float[(int) parameter.elements()];
            for (int i = 0; i < values.length; i++) {
                values[i] = (float) random.nextGaussian();
            }
            buffer.tensor(parameter).segment().copyFrom(MemorySegment.ofArray(values));
        }
        return buffer;
    }

    private void assertSame(String name, ParameterBuffer cpu, ParameterBuffer gpu) {
        assertThat(both.ofGpu(gpu.flat())).as(name).isEqualTo(both.ofCpu(cpu.flat()));
    }

    private void assertClose(String name, Both pair, double tolerance) {
        double[] expected = both.ofCpu(pair.cpu());
        double[] got = both.ofGpu(pair.gpu());
        double error = 0;
        double length = 0;
        for (int i = 0; i < got.length; i++) {
            error += (got[i] - expected[i]) * (got[i] - expected[i]);
            length += expected[i] * expected[i];
        }
        assertThat(Math.sqrt(error / length)).as(name).isLessThan(tolerance);
    }

    private void assertEmptyNodeIsZero(Tiles tiles, Tensor sums) {
        assertThat(both.ofGpu(sums.rows(tiles.nodes().size() - 1, tiles.nodes().size())))
                .containsOnly(0);
    }
}
