package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Sharded against unsharded: y and dx to the bit for any partition, dweight and dbias to the bit for tree-exact ones. */
class KcpConv1dTest {
    private static final int CHANNELS = 24;

    private static void assertParity(ConvCase in, Partition partition, SiluGradPolicy policy, boolean withHandle) {
        Sharded.assertParity(Sharded.ON_CPU, partition, in, ConvOptions.DEFAULT.withPolicy(policy), withHandle);
    }

    private static void assertParity(Layout layout, int ranks, int... lengths) {
        Partition partition = Partition.of(layout, CuSeqlens.ofLengths(lengths), ranks, 1);
        try (ConvCase in = ConvCase.random(11, CHANNELS, lengths)) {
            assertParity(in, partition, SiluGradPolicy.BF16, false);
            assertParity(in, partition, SiluGradPolicy.FP32, true);
        }
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void documentCrossesACutLeavingOneToken(Layout layout) {
        assertParity(layout, 2, 9, 7);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void documentEndsExactlyOnACut(Layout layout) {
        assertParity(layout, 2, 128, 128);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void oneDocumentOverAllRanks(Layout layout) {
        assertParity(layout, 4, 203);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 6})
    void fragmentsOfOneToThreeTokensReadRowsOfThreeOtherRanks(int tokens) {
        for (Layout layout : Layout.values()) {
            assertParity(layout, 6, tokens);
        }
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void someRanksOwnNothing(Layout layout) {
        assertParity(layout, 5, 0, 2, 0, 0);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void noTokenAtAll(Layout layout) {
        assertParity(layout, 3, 0, 0);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void manyTinyDocuments(Layout layout) {
        int[] lengths = new int[150];
        for (int d = 0; d < lengths.length; d++) {
            lengths[d] = d % 4;
        }
        assertParity(layout, 4, lengths);
    }

    @Test
    void fragmentsOfOneRankInReversedOrderReadEachOther() {
        CuSeqlens cuSeqlens = CuSeqlens.ofLengths(8);
        Partition partition = Partition.ofFragments(
                cuSeqlens,
                List.of(
                        List.of(new Fragment(0, 6, 2), new Fragment(0, 2, 1), new Fragment(0, 0, 1)),
                        List.of(new Fragment(0, 3, 3), new Fragment(0, 1, 1))));
        try (ConvCase in = ConvCase.random(3, CHANNELS, 8)) {
            assertParity(in, partition, SiluGradPolicy.FP32, true);
        }
    }

    @Test
    void lastRowOfTheDocumentBeforeChangesNothing() {
        CuSeqlens cuSeqlens = CuSeqlens.ofLengths(100, 156);
        Partition partition = Partition.of(Layout.CONTIGUOUS, cuSeqlens, 2, 1);
        try (ConvCase in = ConvCase.random(5, CHANNELS, 100, 156);
                Sharded before = Sharded.over(partition, in, ConvOptions.DEFAULT, false)) {
            for (int c = 0; c < CHANNELS; c++) {
                ConvCase.set(in.x(), 99, c, Float.NaN);
            }
            try (Sharded after = Sharded.over(partition, in, ConvOptions.DEFAULT, false)) {
                assertSameBits("y of B", after.y().rows(100, 256), before.y().rows(100, 256));
                assertSameBits("dx of B", after.dx().rows(100, 256), before.dx().rows(100, 256));
            }
        }
    }

    private static final float[] UNUSUAL = {
        Float.NaN,
        Float.intBitsToFloat(0xFFC00000),
        Float.intBitsToFloat(0x7FA10000),
        Float.POSITIVE_INFINITY,
        Float.NEGATIVE_INFINITY,
        -0f,
        0f
    };

    /** Some elements NaN of either sign, infinite, or a zero of either sign. */
    private static void sprinkle(Random random, Tensor rows) {
        for (int i = 0; i < rows.rows() / 2; i++) {
            ConvCase.set(
                    rows,
                    random.nextInt((int) rows.rows()),
                    random.nextInt((int) rows.columns()),
                    UNUSUAL[random.nextInt(UNUSUAL.length)]);
        }
    }

    private static void assertAllSame(Sharded got, Sharded expected) {
        assertSameBits("y", got.y(), expected.y());
        assertSameBits("dx", got.dx(), expected.dx());
        assertSameBits("dweight", got.dweight(), expected.dweight());
        assertSameBits("dbias", got.dbias(), expected.dbias());
    }

    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void noGradientOfTheOutputHasTheBitsOfATensorOfZerosOnAnyPartition(SiluGradPolicy policy) {
        ConvOptions options = ConvOptions.DEFAULT.withPolicy(policy);
        Random random = new Random(17);
        for (int[] lengths : new int[][] {{16}, {9, 7}, {70, 1, 2, 130, 3}}) {
            CuSeqlens cuSeqlens = CuSeqlens.ofLengths(lengths);
            try (ConvCase in = ConvCase.random(7, CHANNELS, DType.F32, DType.F32, lengths);
                    Tensor zeros = Tensor.zeros(DType.BF16, in.rows(), CHANNELS)) {
                ConvCase.set(in.x(), 8, 0, Float.NaN);
                sprinkle(random, in.x());
                ConvCase given = new ConvCase(in.cuSeqlens(), in.x(), in.weight(), in.bias(), in.offsets(), zeros);
                ConvCase none = new ConvCase(in.cuSeqlens(), in.x(), in.weight(), in.bias(), in.offsets(), null);
                try (Sharded expected = Sharded.alone(given, options);
                        Sharded alone = Sharded.alone(none, options)) {
                    assertAllSame(alone, expected);
                    assertThat(ConvCase.get(alone.dx(), 8, 0)).isNaN();
                    for (int ranks = 1; ranks <= 4; ranks++) {
                        for (Layout layout : Layout.values()) {
                            Partition partition = Partition.of(layout, cuSeqlens, ranks, 1);
                            try (Sharded got = Sharded.over(partition, none, options, false);
                                    Sharded same = Sharded.over(partition, given, options, false)) {
                                assertAllSame(got, same);
                                assertSameBits("dx", got.dx(), expected.dx());
                            }
                        }
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void sumsOfNaNsOfBothSignsHaveTheBitsOfOneRank(SiluGradPolicy policy) {
        ConvOptions options = ConvOptions.DEFAULT.withPolicy(policy);
        Random random = new Random(23);
        int[] lengths = {300, 5, 150};
        try (ConvCase in = ConvCase.random(9, CHANNELS, DType.F32, DType.F32, lengths)) {
            sprinkle(random, in.x());
            sprinkle(random, in.dy());
            try (Sharded expected = Sharded.alone(in, options)) {
                for (int ranks = 1; ranks <= 4; ranks++) {
                    for (Layout layout : Layout.values()) {
                        Partition partition = Partition.of(layout, CuSeqlens.ofLengths(lengths), ranks, 64);
                        try (Sharded got = Sharded.over(partition, in, options, false)) {
                            assertSameBits("dweight", got.dweight(), expected.dweight());
                            assertSameBits("dbias", got.dbias(), expected.dbias());
                            assertSameBits("y", got.y(), expected.y());
                            assertSameBits("dx", got.dx(), expected.dx());
                        }
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void randomGeometry(long seed) {
        Random random = new Random(seed);
        for (int trial = 0; trial < 12; trial++) {
            int[] lengths = Geometry.lengths(random);
            int ranks = 1 + random.nextInt(9);
            Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(lengths), ranks);
            DType bias = new DType[] {null, DType.F32, DType.BF16}[random.nextInt(3)];
            DType weight = random.nextBoolean() ? DType.F32 : DType.BF16;
            int channels = 8 * (1 + random.nextInt(5));
            try (ConvCase in = ConvCase.random(random.nextLong(), channels, weight, bias, lengths)) {
                SiluGradPolicy policy = random.nextBoolean() ? SiluGradPolicy.BF16 : SiluGradPolicy.FP32;
                assertParity(in, partition, policy, random.nextBoolean());
            }
        }
    }
}
