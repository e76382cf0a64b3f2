package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cpu.CpuConvEngine;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is planned for a rank is what its context tells. */
class PartitionCostsTest {
    private static final long CHANNELS = 24;

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void randomGeometry(long seed) {
        Random random = new Random(seed);
        for (int trial = 0; trial < 30; trial++) {
            Partition partition =
                    Geometry.partition(random, CuSeqlens.ofLengths(Geometry.lengths(random)), 1 + random.nextInt(9));
            SiluGradPolicy policy = SiluGradPolicy.values()[trial % 2];
            boolean withBias = random.nextBoolean();
            PartitionCosts costs = new PartitionCosts(partition);
            LocalRanks.run(partition.ranks(), Sharded.DEADLINE, communicator -> {
                int rank = communicator.rank();
                try (ConvEngine engine = new CpuConvEngine(1);
                        KcpContext context = new KcpContext(partition, communicator, engine)) {
                    assertThat(costs.forwardBytes(rank, CHANNELS) + costs.backwardBytes(rank, CHANNELS))
                            .isEqualTo(context.commBytes(CHANNELS));
                    assertThat(costs.savedBytes(rank, CHANNELS)).isEqualTo(context.savedBytes(CHANNELS));
                    assertThat(costs.treeBytes(rank, CHANNELS, policy, withBias))
                            .isEqualTo(context.treeBytes(CHANNELS, policy, withBias));
                    return null;
                }
            });
        }
    }
}
