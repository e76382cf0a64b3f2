package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;

import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.DType;
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
