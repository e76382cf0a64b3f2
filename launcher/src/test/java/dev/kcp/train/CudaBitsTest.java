package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.BothEngines.Both;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What a tile gives on the GPU depends on its rows alone, bit by bit: not on the tiles beside it, nor on the run. */
@NeedsGpu
class CudaBitsTest {
    private final Random random = new Random(6);
    private BothEngines both;

    @BeforeEach
    void open() {
        both = new BothEngines();
    }

    @AfterEach
    void close() {
        both.close();
    }

    @ParameterizedTest
    @CsvSource({"64,256,7", "64,1024,40", "512,1024,17", "1024,264,9", "4096,512,3"})
    void rowsOfAPartHaveTheBitsOfTheWhole(int tileRows, int channels, int count) {
        int rows = tileRows * count;
        Tensor x = both.rows(random, rows, channels).gpu();
        Tensor weight = both.rows(random, channels, channels).gpu();
        Tensor plus = both.rows(random, rows, channels).gpu();
        for (boolean transposed : new boolean[] {false, true}) {
            for (Tensor added : new Tensor[] {null, plus}) {
                double[] whole = product(x, weight, transposed, added, tileRows, 0, rows);
                assertThat(product(x, weight, transposed, added, tileRows, 0, rows))
                        .isEqualTo(whole);
                for (int begin : new int[] {tileRows, tileRows * (count / 2), rows - tileRows}) {
                    assertThat(product(x, weight, transposed, added, tileRows, begin, rows))
                            .as("rows from %s", begin)
                            .isEqualTo(Arrays.copyOfRange(whole, begin * channels, rows * channels));
                }
            }
        }
    }

    private double[] product(
            Tensor x, Tensor weight, boolean transposed, Tensor plus, int tileRows, int begin, int end) {
        try (Tensor y = both.gpu.allocate(DType.BF16, end - begin, weight.columns())) {
            both.gpu.multiply(
                    BothEngines.tiles(end - begin, tileRows),
                    x.rows(begin, end),
                    weight,
                    transposed,
                    plus == null ? null : plus.rows(begin, end),
                    y);
            return both.ofGpu(y);
        }
    }

    @ParameterizedTest
    @CsvSource({"64,256,64", "64,1024,34", "512,1024,20", "1024,264,8", "8192,512,4"})
    void sumsOfHalvesAddUpToTheBitsOfTheWhole(int tileRows, int channels, int count) {
        int rows = tileRows * count - 9;
        int cut = tileRows * Integer.highestOneBit(count - 1);
        Tensor x = both.rows(random, rows, channels).gpu();
        Tensor dy = both.rows(random, rows, channels).gpu();
        try (Tensor whole = sums(x, dy, tileRows, 0, rows);
                Tensor again = sums(x, dy, tileRows, 0, rows);
                Tensor left = sums(x, dy, tileRows, 0, cut);
                Tensor right = sums(x, dy, tileRows, cut, rows)) {
            assertThat(both.ofGpu(again)).isEqualTo(both.ofGpu(whole));
            both.gpu.add(left, right);
            assertThat(both.ofGpu(left)).isEqualTo(both.ofGpu(whole));
        }
    }

    private Tensor sums(Tensor x, Tensor dy, int tileRows, int begin, int end) {
        Tensor sums = both.gpu.allocate(DType.F32, 2, x.columns() * dy.columns());
        both.gpu.weightGradient(
                BothEngines.tiles(end - begin, tileRows), x.rows(begin, end), dy.rows(begin, end), sums);
        return sums;
    }

    @ParameterizedTest
    @CsvSource({"64,72,64", "128,40,21"})
    void sumsOfNormLossAndVectorsDoNotDependOnTheCut(int tileRows, int channels, int count) {
        int rows = tileRows * count - 5;
        int cut = tileRows * Integer.highestOneBit(count - 1);
        assertThat(otherSums(tileRows, channels, rows, 0, cut, rows))
                .isEqualTo(otherSums(tileRows, channels, rows, 0, rows));
    }

    /** Sums of the parts between the cuts, added in order. */
    private double[] otherSums(int tileRows, int channels, int rows, int... cuts) {
        Random same = new Random(7);
        Both x = both.rows(same, rows, channels);
        Both gain = both.floats(same, channels);
        Both dy = both.rows(same, rows, channels);
        Both logits = both.rows(same, rows, ModelShape.VOCABULARY);
        Both targets = both.tokens(same, rows);
        Tensor rms = both.floats(same, rows, 1).gpu();
        Tensor gains = both.zeros(DType.F32, 2, channels).gpu();
        Tensor losses = both.zeros(DType.F64, 2, 1).gpu();
        Tensor vectors = both.zeros(DType.F32, 2, (long) ModelShape.VOCABULARY * channels)
                .gpu();
        Tensor gainsSum = both.zeros(DType.F32, channels).gpu();
        Tensor lossSum = both.zeros(DType.F64, 1).gpu();
        Tensor vectorsSum =
                both.zeros(DType.F32, (long) ModelShape.VOCABULARY * channels).gpu();
        for (int part = 0; part + 1 < cuts.length; part++) {
            int begin = cuts[part];
            int end = cuts[part + 1];
            Tiles tiles = BothEngines.tiles(end - begin, tileRows);
            Tensor dx = both.zeroRows(end - begin, channels);
            both.gpu.normBackward(
                    tiles,
                    x.gpu().rows(begin, end),
                    gain.gpu(),
                    rms.rows(begin, end),
                    dy.gpu().rows(begin, end),
                    dx,
                    gains);
            both.gpu.crossEntropy(
                    tiles, logits.gpu().rows(begin, end), targets.gpu().rows(begin, end), 0.5f, losses);
            both.gpu.embedBackward(
                    tiles,
                    logits.gpu().rows(begin, end),
                    x.gpu().rows(begin, end),
                    targets.gpu().rows(begin, end),
                    dy.gpu().rows(begin, end),
                    vectors);
            both.gpu.add(gainsSum, gains.rows(0, 1));
            both.gpu.add(lossSum, losses.rows(0, 1));
            both.gpu.add(vectorsSum, vectors.rows(0, 1));
        }
        return java.util.stream.Stream.of(gainsSum, lossSum, vectorsSum)
                .flatMapToDouble(sum -> Arrays.stream(both.ofGpu(sum)))
                .toArray();
    }
}
