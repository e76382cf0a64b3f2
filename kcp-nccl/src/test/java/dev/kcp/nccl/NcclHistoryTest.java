package dev.kcp.nccl;

import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Geometry;
import dev.kcp.core.JoinedBatch;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.cuda.NeedsTwoGpus;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A caller's history on several GPUs, against the joined documents on one CPU. */
@NeedsTwoGpus
class NcclHistoryTest {
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

    private static void assertJoined(Random random, Partition partition, int[] lengths, SiluGradPolicy policy) {
        try (JoinedBatch joined = JoinedBatch.random(random, lengths)) {
            joined.assertParity(ranks, partition, new ConvOptions(policy, ConvMath.PORTABLE, false));
        }
    }

    @Test
    void randomGeometryHasTheBitsOfTheJoinedDocuments() {
        Random random = new Random(5);
        for (int trial = 0; trial < 40; trial++) {
            int[] lengths = Geometry.lengths(random);
            Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(lengths), GpuRanks.gpus());
            assertJoined(random, partition, lengths, SiluGradPolicy.values()[trial % 2]);
        }
    }

    /** The caller's rows pass a first fragment of one or two tokens by, and are read on the next rank. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5})
    void fewerTokensThanTaps(int tokens) {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(tokens), GpuRanks.gpus(), 1);
        for (int trial = 0; trial < 4; trial++) {
            assertJoined(new Random(trial), partition, new int[] {tokens}, SiluGradPolicy.FP32);
        }
    }
}
