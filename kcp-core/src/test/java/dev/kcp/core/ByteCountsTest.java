package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Bytes that a context predicts are those that its rank sends. */
class ByteCountsTest {
    private static long sent(Communicator communicator, Call.Kind kind) {
        return communicator.stats().bytesSent(kind);
    }

    private static void assertPredicted(
            Communicator communicator, Partition partition, ConvCase in, SiluGradPolicy policy) {
        int tokens = partition.tokens(communicator.rank());
        try (ConvEngine engine = new CpuConvEngine(1);
                KcpContext context = new KcpContext(partition, communicator, engine);
                Tensor x = Tensor.zeros(DType.BF16, tokens, in.channels());
                Tensor y = Tensor.zeros(DType.BF16, tokens, in.channels())) {
            KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT.withPolicy(policy));
            try (Saved saved = conv.forward(context, x, in.weight(), in.bias(), y, null);
                    PartialGradients sums = conv.backward(saved, x, y)) {
                assertThat(sent(communicator, Call.Kind.HALO_FORWARD) + sent(communicator, Call.Kind.HALO_BACKWARD))
                        .as("halo bytes")
                        .isEqualTo(context.commBytes(in.channels()));
                long halo = HaloPlan.of(partition).forward().stream()
                                .filter(edge -> edge.from() == communicator.rank() && !edge.isLocal())
                                .mapToLong(edge -> edge.tokens().length)
                                .sum()
                        * in.channels()
                        * 2;
                assertThat(sent(communicator, Call.Kind.HALO_FORWARD)).isEqualTo(halo);
                conv.reduceGradients(List.of(sums), DType.F32).close();
                assertThat(sent(communicator, Call.Kind.EXCHANGE))
                        .as("tree bytes")
                        .isEqualTo(context.treeBytes(in.channels(), policy, in.bias() != null));
            }
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void randomGeometry(long seed) {
        Random random = new Random(seed);
        for (int trial = 0; trial < 20; trial++) {
            int[] lengths = Geometry.lengths(random);
            Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(lengths), 1 + random.nextInt(9));
            DType bias = random.nextBoolean() ? DType.F32 : null;
            SiluGradPolicy policy = SiluGradPolicy.values()[trial % 2];
            try (ConvCase in = ConvCase.random(trial, 8 * (1 + random.nextInt(4)), DType.F32, bias, lengths)) {
                LocalRanks.run(partition.ranks(), Sharded.DEADLINE, communicator -> {
                    assertPredicted(communicator, partition, in, policy);
                    return null;
                });
            }
        }
    }

    /** Case 15 in spirit: where no document crosses a cut, nothing is sent. */
    @Test
    void documentsThatEndOnEveryCutSendNoRow() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(8, 3, 5, 8), 3, 8);
        LocalRanks.run(3, Sharded.DEADLINE, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = new KcpContext(partition, communicator, engine)) {
                assertThat(context.commBytes(256)).isZero();
                return null;
            }
        });
    }
}
