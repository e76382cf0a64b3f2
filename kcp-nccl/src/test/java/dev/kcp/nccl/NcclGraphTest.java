package dev.kcp.nccl;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.Checkpoint;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.Layout;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.Partition;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;
import dev.kcp.core.Sharded;
import dev.kcp.core.Shards;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** One captured layer, checkpointed, replayed over changing documents, against the single rank on the CPU. */
@NeedsTwoGpus
class NcclGraphTest {
    private static final int CHANNELS = 48;
    private static final int TOKENS = 64 * 9 + 5;
    private static final int BATCHES = 100;
    private static final ConvOptions PORTABLE = new ConvOptions(SiluGradPolicy.BF16, ConvMath.PORTABLE, false);

    /** What the captured layer reads and writes. */
    private record Buffers(Tensor x, Tensor dy, Tensor weight, Tensor y, Tensor dx, Gradients sums) {}

    private static int[] lengths(Random random) {
        List<Integer> lengths = new ArrayList<>();
        for (int left = TOKENS; left > 0; ) {
            int length = Math.min(left, random.nextInt(3) > 0 ? random.nextInt(5) : random.nextInt(TOKENS));
            lengths.add(length);
            left -= length;
        }
        return lengths.stream().mapToInt(Integer::intValue).toArray();
    }

    @ParameterizedTest
    @EnumSource(
            value = Layout.class,
            names = {"CONTIGUOUS", "ZIGZAG"})
    void replaysOverChangingDocumentsHaveTheBitsOfTheSingleRank(Layout layout) {
        Random random = new Random(3);
        List<ConvCase> cases = new ArrayList<>();
        List<Partition> partitions = new ArrayList<>();
        for (int batch = 0; batch < BATCHES; batch++) {
            int[] lengths = lengths(random);
            cases.add(ConvCase.random(batch, CHANNELS, lengths));
            partitions.add(Partition.of(layout, CuSeqlens.ofLengths(lengths), GpuRanks.gpus(), 64));
        }
        List<List<Sharded>> all;
        try (GpuRanks ranks = new GpuRanks(GpuRanks.gpus(), GpuRanks.DEADLINE)) {
            all = ranks.run((communicator, engine) -> replays(communicator, engine, cases, partitions));
        }
        for (int batch = 0; batch < BATCHES; batch++) {
            try (Sharded expected = Sharded.alone(cases.get(batch), PORTABLE)) {
                Sharded got = all.getFirst().get(batch);
                assertSameBits("y of batch " + batch, got.y(), expected.y());
                assertSameBits("dx of batch " + batch, got.dx(), expected.dx());
                assertSameBits("dweight of batch " + batch, got.dweight(), expected.dweight());
            }
        }
    }

    private static List<Sharded> replays(
            NcclCommunicator communicator, CudaConvEngine engine, List<ConvCase> cases, List<Partition> partitions) {
        CudaStream stream = engine.stream();
        List<Sharded> results = new ArrayList<>();
        engine.prepare(TOKENS, CHANNELS);
        int tokens = partitions.getFirst().tokens(communicator.rank());
        try (KcpContext context = KcpContext.updatable(partitions.getFirst(), TOKENS, communicator, engine)) {
            Buffers buffers = new Buffers(
                    stream.zeros(DType.BF16, tokens, CHANNELS),
                    stream.zeros(DType.BF16, tokens, CHANNELS),
                    stream.zeros(DType.F32, CHANNELS, 4),
                    stream.zeros(DType.BF16, tokens, CHANNELS),
                    stream.zeros(DType.BF16, tokens, CHANNELS),
                    new Gradients(null, stream.zeros(DType.F32, CHANNELS, 4), null));
            KcpConv1d conv = new KcpConv1d("layer0", PORTABLE);
            layer(conv, context, buffers, stream);
            try (NcclGraph graph = communicator.capture("layer0", () -> layer(conv, context, buffers, stream))) {
                assertThat(graph.calls()).hasSize(4);
                for (int batch = 0; batch < cases.size(); batch++) {
                    if (batch > 0) {
                        context.update(partitions.get(batch));
                    }
                    ConvCase in = cases.get(batch);
                    results.add(step(communicator, context, buffers, graph::replay, in, stream));
                    assertEagerBits(communicator, engine, partitions.get(batch), buffers, in);
                }
                Partition other =
                        Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(TOKENS + 64), communicator.size(), 64);
                assertThatThrownBy(() -> context.update(other)).isInstanceOf(IllegalArgumentException.class);
            }
        }
        return results;
    }

    /** Runs the layer anew, with a context of its own, against what the replay left. */
    private static void assertEagerBits(
            NcclCommunicator communicator, CudaConvEngine engine, Partition partition, Buffers on, ConvCase in) {
        CudaStream stream = engine.stream();
        KcpConv1d conv = new KcpConv1d("eager", PORTABLE);
        try (Tensor y = stream.download(on.y());
                Tensor dx = stream.download(on.dx());
                Tensor dweight = stream.download(on.sums().dweight());
                KcpContext context = new KcpContext(partition, communicator, engine)) {
            step(communicator, context, on, () -> layer(conv, context, on, stream), in, stream)
                    .close();
            assertSame("y", y, on.y(), stream);
            assertSame("dx", dx, on.dx(), stream);
            assertSame("dweight", dweight, on.sums().dweight(), stream);
        }
    }

    private static void assertSame(String name, Tensor replayed, Tensor eager, CudaStream stream) {
        try (Tensor host = stream.download(eager)) {
            assertSameBits(name + " of the replay", replayed, host);
        }
    }

    /** A checkpointed layer: forward, recompute from the handle's rows, backward, sums. */
    private static void layer(KcpConv1d conv, KcpContext context, Buffers on, CudaStream stream) {
        RecomputeHandle handle = RecomputeHandle.create();
        try (Checkpoint region = Checkpoint.of(handle)) {
            region.forward(() -> conv.forward(context, on.x(), on.weight(), null, on.y(), handle))
                    .close();
            try (Saved saved =
                            region.recompute(() -> conv.forward(context, on.x(), on.weight(), null, on.y(), handle));
                    PartialGradients sums = conv.backward(saved, on.dy(), on.dx())) {
                Gradients reduced = conv.reduceGradients(List.of(sums), DType.F32);
                stream.copy(reduced.dweight().address(), on.sums().dweight().address(), 4L * CHANNELS * 4);
                reduced.dweight().close();
            }
        }
        handle.clear();
    }

    private static Sharded step(
            NcclCommunicator communicator,
            KcpContext context,
            Buffers on,
            Runnable layer,
            ConvCase in,
            CudaStream stream) {
        int rank = communicator.rank();
        write(context.partition(), rank, in.x(), on.x(), stream);
        write(context.partition(), rank, in.dy(), on.dy(), stream);
        stream.write(in.weight(), on.weight());
        stream.fill(on.y().address(), (byte) 0xff, on.y().elements() * 2);
        stream.fill(on.dx().address(), (byte) 0xff, on.dx().elements() * 2);
        layer.run();
        communicator.synchronize();
        return new Sharded(
                gathered(communicator, context.partition(), "y", on.y(), stream),
                gathered(communicator, context.partition(), "dx", on.dx(), stream),
                stream.download(on.sums().dweight()),
                null,
                null);
    }

    private static void write(Partition partition, int rank, Tensor packed, Tensor to, CudaStream stream) {
        try (Tensor local = Tensor.zeros(DType.BF16, partition.tokens(rank), CHANNELS)) {
            Shards.take(partition, rank, packed, local);
            stream.write(local, to);
        }
    }

    private static Tensor gathered(
            NcclCommunicator communicator, Partition partition, String name, Tensor local, CudaStream stream) {
        Tensor packed = communicator.rank() == 0 ? Tensor.zeros(DType.BF16, TOKENS, CHANNELS) : null;
        try (Tensor host = stream.download(local)) {
            Shards.gather(communicator.host(), partition, name, host, packed);
        }
        return packed;
    }
}
