package dev.kcp.nccl;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Call;
import dev.kcp.comm.CommunicatorStats;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.Checkpoint;
import dev.kcp.core.ConvArguments;
import dev.kcp.core.ConvGradients;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.Geometry;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
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
import org.junit.jupiter.api.Test;

/** Several tensors of different widths in one exchange per direction, against single calls on one CPU. */
@NeedsTwoGpus
class NcclMultiTensorTest {
    private static final int TRIALS = 30;

    @Test
    void randomGeometryHasTheBitsOfSingleCallsWithOneExchangePerDirection() {
        Random random = new Random(9);
        try (GpuRanks ranks = new GpuRanks(GpuRanks.gpus(), GpuRanks.DEADLINE)) {
            for (int trial = 0; trial < TRIALS; trial++) {
                int[] lengths = Geometry.lengths(random);
                Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(lengths), GpuRanks.gpus());
                List<ConvCase> cases = new ArrayList<>();
                List<Sharded> expected = new ArrayList<>();
                ConvOptions options =
                        new ConvOptions(SiluGradPolicy.values()[random.nextInt(2)], ConvMath.PORTABLE, false);
                for (int i = 0; i < 1 + random.nextInt(4); i++) {
                    DType weight = random.nextBoolean() ? DType.F32 : DType.BF16;
                    DType bias = new DType[] {null, DType.F32, DType.BF16}[random.nextInt(3)];
                    cases.add(ConvCase.random(random.nextLong(), 8 * (1 + random.nextInt(4)), weight, bias, lengths));
                    expected.add(Sharded.alone(cases.getLast(), options));
                }
                boolean withHandle = random.nextBoolean();
                ranks.run((communicator, engine) -> {
                    assertBits(communicator, engine, partition, cases, expected, options, withHandle);
                    return null;
                });
                expected.forEach(Sharded::close);
                cases.forEach(ConvCase::close);
            }
        }
    }

    private static void assertBits(
            NcclCommunicator communicator,
            CudaConvEngine engine,
            Partition partition,
            List<ConvCase> cases,
            List<Sharded> expected,
            ConvOptions options,
            boolean withHandle) {
        CudaStream stream = engine.stream();
        List<ConvArguments> arguments = new ArrayList<>();
        List<ConvGradients> gradients = new ArrayList<>();
        List<Tensor> owned = new ArrayList<>();
        for (ConvCase in : cases) {
            arguments.add(ConvArguments.of(
                    kept(owned, shard(communicator, partition, in.x(), stream)),
                    kept(owned, stream.upload(in.weight())),
                    in.bias() == null ? null : kept(owned, stream.upload(in.bias())),
                    kept(owned, room(partition, communicator, in, stream))));
            gradients.add(new ConvGradients(
                    kept(owned, shard(communicator, partition, in.dy(), stream)),
                    kept(owned, room(partition, communicator, in, stream)),
                    null));
        }
        CommunicatorStats before = communicator.stats();
        KcpConv1d conv = new KcpConv1d("together", options);
        RecomputeHandle handle = withHandle ? RecomputeHandle.create() : null;
        try (KcpContext context = new KcpContext(partition, communicator, engine);
                Checkpoint region = withHandle ? Checkpoint.of(handle) : Checkpoint.of()) {
            Saved saved = region.forward(() -> conv.forward(context, arguments, handle));
            if (withHandle) {
                saved.close();
                arguments.forEach(one -> poison(one.y(), stream));
                saved = region.recompute(() -> conv.forward(context, arguments, handle));
            }
            try (Saved live = saved) {
                List<PartialGradients> sums = conv.backward(live, gradients);
                assertThat(conv.exchanges()).isEqualTo(new ExchangeCounts(1, 0, 1));
                long channels = cases.stream().mapToLong(ConvCase::channels).sum();
                assertThat(sent(communicator.stats()) - sent(before)).isEqualTo(context.commBytes(channels));
                for (int i = 0; i < cases.size(); i++) {
                    assertSameShard(
                            "y",
                            communicator,
                            partition,
                            arguments.get(i).y(),
                            expected.get(i).y(),
                            stream);
                    assertSameShard(
                            "dx",
                            communicator,
                            partition,
                            gradients.get(i).dx(),
                            expected.get(i).dx(),
                            stream);
                    Gradients reduced = conv.reduceGradients(List.of(sums.get(i)), DType.F32);
                    if (partition.isTreeExact()) {
                        assertSame("dweight", reduced.dweight(), expected.get(i).dweight(), stream);
                        if (reduced.dbias() != null) {
                            assertSame("dbias", reduced.dbias(), expected.get(i).dbias(), stream);
                        }
                    }
                    reduced.close();
                    sums.get(i).close();
                }
            }
        }
        if (handle != null) {
            handle.clear();
        }
        owned.forEach(Tensor::close);
    }

    private static long sent(CommunicatorStats stats) {
        return stats.bytesSent(Call.Kind.HALO_FORWARD) + stats.bytesSent(Call.Kind.HALO_BACKWARD);
    }

    private static Tensor kept(List<Tensor> owned, Tensor tensor) {
        owned.add(tensor);
        return tensor;
    }

    private static Tensor shard(NcclCommunicator communicator, Partition partition, Tensor packed, CudaStream stream) {
        int rank = communicator.rank();
        try (Tensor local = Tensor.zeros(DType.BF16, partition.tokens(rank), packed.columns())) {
            Shards.take(partition, rank, packed, local);
            return stream.upload(local);
        }
    }

    private static Tensor room(Partition partition, NcclCommunicator communicator, ConvCase in, CudaStream stream) {
        Tensor room = stream.zeros(DType.BF16, partition.tokens(communicator.rank()), in.channels());
        poison(room, stream);
        return room;
    }

    private static void poison(Tensor tensor, CudaStream stream) {
        if (tensor.elements() > 0) {
            stream.fill(
                    tensor.address(),
                    (byte) 0xFF,
                    tensor.elements() * tensor.dtype().bytes());
        }
    }

    private static void assertSameShard(
            String name,
            NcclCommunicator communicator,
            Partition partition,
            Tensor local,
            Tensor packed,
            CudaStream stream) {
        int rank = communicator.rank();
        try (Tensor wanted = Tensor.zeros(DType.BF16, partition.tokens(rank), packed.columns())) {
            Shards.take(partition, rank, packed, wanted);
            assertSame(name + " of rank " + rank, local, wanted, stream);
        }
    }

    private static void assertSame(String name, Tensor device, Tensor wanted, CudaStream stream) {
        try (Tensor got = stream.download(device)) {
            assertSameBits(name, got, wanted);
        }
    }
}
