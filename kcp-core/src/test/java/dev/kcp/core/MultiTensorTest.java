package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Several tensors in one exchange per direction, against as many single calls. */
class MultiTensorTest {
    /** One rank's shards of several tensors. */
    private static final class Rank implements AutoCloseable {
        final List<Tensor> owned = new ArrayList<>();
        final List<ConvArguments> arguments = new ArrayList<>();
        final List<ConvGradients> gradients = new ArrayList<>();

        Rank(Partition partition, int rank, List<ConvCase> cases) {
            for (ConvCase in : cases) {
                Tensor x = room(partition.tokens(rank), in.channels());
                Tensor dy = room(partition.tokens(rank), in.channels());
                Shards.take(partition, rank, in.x(), x);
                Shards.take(partition, rank, in.dy(), dy);
                Tensor y = room(partition.tokens(rank), in.channels());
                Tensor dx = room(partition.tokens(rank), in.channels());
                arguments.add(ConvArguments.of(x, in.weight(), in.bias(), y));
                gradients.add(new ConvGradients(dy, dx, null));
            }
        }

        private Tensor room(int rows, int channels) {
            Tensor tensor = Tensor.zeros(DType.BF16, rows, channels);
            tensor.segment().fill((byte) 0xFF);
            owned.add(tensor);
            return tensor;
        }

        @Override
        public void close() {
            owned.forEach(Tensor::close);
        }
    }

    /** dweight of tensor i after forward and backward of the whole list. */
    private static List<Gradients> step(
            KcpContext context, KcpConv1d conv, Rank rank, boolean withHandle, DType dtype) {
        RecomputeHandle handle = withHandle ? RecomputeHandle.create() : null;
        Saved saved = conv.forward(context, rank.arguments, handle);
        if (withHandle) {
            saved.close();
            rank.arguments.forEach(one -> one.y().segment().fill((byte) 0xFF));
            saved = Phase.RECOMPUTE.call(() -> conv.forward(context, rank.arguments, handle));
        }
        try (Saved live = saved) {
            List<Gradients> reduced = new ArrayList<>();
            for (PartialGradients sums : conv.backward(live, rank.gradients)) {
                reduced.add(conv.reduceGradients(List.of(sums), dtype));
                sums.close();
            }
            return reduced;
        } finally {
            if (handle != null) {
                handle.clear();
            }
        }
    }

    private static void assertBitsOfSingleCalls(
            Communicator communicator, Partition partition, List<ConvCase> cases, ConvOptions options, Random random) {
        boolean overlap = random.nextBoolean();
        boolean withHandle = random.nextBoolean();
        try (ConvEngine engine = new CpuConvEngine(1);
                KcpContext context = new KcpContext(partition, communicator, engine);
                Rank together = new Rank(partition, communicator.rank(), cases)) {
            KcpConv1d conv = overlap ? new KcpConv1d("together", options) : KcpConv1d.inSeries("together", options);
            CommunicatorStats before = communicator.stats();
            List<Gradients> got = step(context, conv, together, withHandle, DType.F32);
            assertThat(conv.exchanges()).isEqualTo(new ExchangeCounts(1, 0, 1));
            long channels = cases.stream().mapToLong(ConvCase::channels).sum();
            assertThat(sent(communicator.stats()) - sent(before)).isEqualTo(context.commBytes(channels));
            for (int i = 0; i < cases.size(); i++) {
                try (Rank alone = new Rank(partition, communicator.rank(), List.of(cases.get(i)))) {
                    KcpConv1d single = new KcpConv1d("single", options);
                    Gradients expected =
                            step(context, single, alone, false, DType.F32).getFirst();
                    assertSameBits(
                            "y",
                            together.arguments.get(i).y(),
                            alone.arguments.getFirst().y());
                    assertSameBits(
                            "dx",
                            together.gradients.get(i).dx(),
                            alone.gradients.getFirst().dx());
                    assertSameBits("dweight", got.get(i).dweight(), expected.dweight());
                    if (expected.dbias() != null) {
                        assertSameBits("dbias", got.get(i).dbias(), expected.dbias());
                    }
                    expected.close();
                    got.get(i).close();
                }
            }
        }
    }

    private static long sent(CommunicatorStats stats) {
        return stats.bytesSent(Call.Kind.HALO_FORWARD) + stats.bytesSent(Call.Kind.HALO_BACKWARD);
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void randomGeometryHasTheBitsOfSingleCalls(long seed) {
        Random random = new Random(seed);
        for (int trial = 0; trial < 8; trial++) {
            int[] lengths = Geometry.lengths(random);
            Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(lengths), 1 + random.nextInt(5));
            List<ConvCase> cases = new ArrayList<>();
            for (int i = 0; i < 1 + random.nextInt(4); i++) {
                DType weight = random.nextBoolean() ? DType.F32 : DType.BF16;
                DType bias = new DType[] {null, DType.F32, DType.BF16}[random.nextInt(3)];
                cases.add(ConvCase.random(random.nextLong(), 8 * (1 + random.nextInt(4)), weight, bias, lengths));
            }
            ConvOptions options = ConvOptions.DEFAULT.withPolicy(SiluGradPolicy.values()[random.nextInt(2)]);
            long choices = random.nextLong();
            LocalRanks.run(partition.ranks(), Sharded.DEADLINE, communicator -> {
                assertBitsOfSingleCalls(communicator, partition, cases, options, new Random(choices));
                return null;
            });
            cases.forEach(ConvCase::close);
        }
    }

    @Test
    void ranksWithOtherTensorsAreToldWhoHasWhat() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(16), 2, 1);
        List<ConvCase> cases = List.of(ConvCase.random(1, 8, 16), ConvCase.random(2, 24, 16));
        assertThatThrownBy(() -> LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
                    List<ConvCase> own = communicator.rank() == 0 ? cases : cases.reversed();
                    try (ConvEngine engine = new CpuConvEngine(1);
                            KcpContext context = new KcpContext(partition, communicator, engine);
                            Rank rank = new Rank(partition, communicator.rank(), own)) {
                        return new KcpConv1d("pair", ConvOptions.DEFAULT).forward(context, rank.arguments, null);
                    }
                }))
                .hasMessageContaining("rank 0 expected HALO_FORWARD \"pair FORWARD tensors=[8, 24]\"")
                .hasMessageContaining("rank 1 expected HALO_FORWARD \"pair FORWARD tensors=[24, 8]\"");
    }

    @Test
    void oneHandleServesTheWholeListAndKnowsItsShape() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(16), 2, 1);
        List<ConvCase> cases = List.of(ConvCase.random(1, 8, 16), ConvCase.random(2, 24, 16));
        assertThatThrownBy(() -> LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
                    try (ConvEngine engine = new CpuConvEngine(1);
                            KcpContext context = new KcpContext(partition, communicator, engine);
                            Rank rank = new Rank(partition, communicator.rank(), cases)) {
                        KcpConv1d conv = new KcpConv1d("pair", ConvOptions.DEFAULT);
                        RecomputeHandle handle = RecomputeHandle.create();
                        conv.forward(context, rank.arguments, handle).close();
                        assertThat(handle.nbytes()).isEqualTo(context.savedBytes(8 + 24));
                        communicator.barrier("filled");
                        return Phase.RECOMPUTE.call(() -> conv.forward(context, rank.arguments.subList(0, 1), handle));
                    }
                }))
                .hasMessageContaining("entryChannels=[8, 24] C=[8]");
    }

    @Test
    void microStepsOfAMultiCallAddInTheirOrder() {
        Partition partition = Partition.of(Layout.ZIGZAG, CuSeqlens.ofLengths(130, 62), 3, 64);
        List<ConvCase> cases = List.of(ConvCase.random(1, 8, 130, 62), ConvCase.random(2, 24, 130, 62));
        LocalRanks.run(3, Sharded.DEADLINE, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = new KcpContext(partition, communicator, engine);
                    Rank rank = new Rank(partition, communicator.rank(), cases)) {
                KcpConv1d conv = new KcpConv1d("pair", ConvOptions.DEFAULT);
                List<List<PartialGradients>> steps = new ArrayList<>();
                List<RecomputeHandle> handles = List.of(RecomputeHandle.create(), RecomputeHandle.create());
                for (RecomputeHandle handle : handles) {
                    conv.forward(context, rank.arguments, handle).close();
                }
                for (RecomputeHandle handle : handles) {
                    try (Saved saved = Phase.RECOMPUTE.call(() -> conv.forward(context, rank.arguments, handle))) {
                        steps.add(conv.backward(saved, rank.gradients));
                    }
                    handle.clear();
                }
                assertThat(conv.exchanges()).isEqualTo(new ExchangeCounts(2, 0, 2));
                for (int i = 0; i < cases.size(); i++) {
                    List<PartialGradients> both =
                            List.of(steps.get(0).get(i), steps.get(1).get(i));
                    try (Gradients twice = conv.reduceGradients(both, DType.F32);
                            Gradients once = conv.reduceGradients(both.subList(0, 1), DType.F32)) {
                        for (int c = 0; c < cases.get(i).channels(); c++) {
                            assertThat(ConvCase.get(twice.dweight(), c, 3))
                                    .isEqualTo(2 * ConvCase.get(once.dweight(), c, 3));
                        }
                    }
                    both.forEach(PartialGradients::close);
                }
                return null;
            }
        });
        cases.forEach(ConvCase::close);
    }
}
