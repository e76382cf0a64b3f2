package dev.kcp.nccl;

import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Geometry;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.core.Sharded;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.DType;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Sharded over GPUs against one rank on the CPU, to the bit: portable math has the same bits on both. */
@NeedsTwoGpus
class NcclParityTest {
    private static GpuRanks ranks;

    @BeforeAll
    static void open() {
        ranks = new GpuRanks(GpuRanks.gpus(), GpuRanks.DEADLINE);
    }

    @AfterAll
    static void close() {
        if (ranks != null) {
            ranks.close();
        }
    }

    private static void assertParity(ConvCase in, Partition partition, SiluGradPolicy policy, boolean withHandle) {
        Sharded.assertParity(ranks, partition, in, new ConvOptions(policy, ConvMath.PORTABLE, false), withHandle);
    }

    private static void assertParity(Layout layout, int align, int channels, int... lengths) {
        Partition partition = Partition.of(layout, CuSeqlens.ofLengths(lengths), GpuRanks.gpus(), align);
        try (ConvCase in = ConvCase.random(11, channels, lengths)) {
            assertParity(in, partition, SiluGradPolicy.BF16, false);
            assertParity(in, partition, SiluGradPolicy.FP32, true);
        }
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void documentCrossesACutLeavingOneToken(Layout layout) {
        assertParity(layout, 1, 24, 9, 7);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void documentEndsExactlyOnACut(Layout layout) {
        assertParity(layout, 64, 24, 128, 128);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void oneLongDocumentOfManyChannels(Layout layout) {
        assertParity(layout, 64, 1024, 2048);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void fragmentsOfOneToThreeTokens(Layout layout) {
        for (int tokens = 1; tokens <= 6; tokens++) {
            assertParity(layout, 1, 8, tokens);
        }
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void someRanksOwnNothing(Layout layout) {
        assertParity(layout, 1, 24, 0, 1, 0);
        assertParity(layout, 1, 24, 0, 0);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void manyTinyDocuments(Layout layout) {
        int[] lengths = new int[700];
        for (int d = 0; d < lengths.length; d++) {
            lengths[d] = d % 6;
        }
        assertParity(layout, 1, 40, lengths);
    }

    @Test
    void randomGeometries() {
        Random random = new Random(42);
        for (int i = 0; i < 100; i++) {
            int[] lengths = Geometry.lengths(random);
            Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(lengths), GpuRanks.gpus());
            DType weightType = random.nextBoolean() ? DType.F32 : DType.BF16;
            DType biasType = random.nextBoolean() ? null : random.nextBoolean() ? DType.F32 : DType.BF16;
            int channels = 8 * (1 + random.nextInt(40));
            SiluGradPolicy policy = SiluGradPolicy.values()[random.nextInt(2)];
            try (ConvCase in = ConvCase.random(i, channels, weightType, biasType, lengths)) {
                assertParity(in, partition, policy, random.nextBoolean());
            } catch (RuntimeException | Error e) {
                throw new AssertionError("geometry " + i + " " + partition + " C=" + channels, e);
            }
        }
    }
}
