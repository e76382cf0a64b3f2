package dev.kcp.core;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.time.Duration;
import java.util.List;

/** One forward and backward, sharded over thread ranks or unsharded, gathered into batch order. */
record Sharded(Tensor y, Tensor dx, Tensor dweight, Tensor dbias, ExchangeCounts exchanges) implements AutoCloseable {
    static final Duration DEADLINE = Duration.ofSeconds(20);

    static Sharded alone(ConvCase in, ConvOptions options) {
        Gradients out = room(in);
        try (CpuConvEngine engine = new CpuConvEngine(1)) {
            CausalConv1d conv = new CausalConv1d(engine, options);
            Tensor y = conv.forward(in.x(), in.weight(), in.bias(), in.offsets(), null);
            conv.backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), out);
            return new Sharded(y, out.dx(), out.dweight(), out.dbias(), ExchangeCounts.NONE);
        }
    }

    static Sharded over(Partition partition, ConvCase in, ConvOptions options, boolean withHandle) {
        List<Sharded> results = LocalRanks.run(
                partition.ranks(), DEADLINE, communicator -> onRank(communicator, partition, in, options, withHandle));
        for (int rank = 1; rank < results.size(); rank++) {
            dev.kcp.conv.Tolerance.assertSameBits(
                    "dweight of rank " + rank,
                    results.get(rank).dweight(),
                    results.getFirst().dweight());
            results.get(rank).close();
        }
        return results.getFirst();
    }

    private static Sharded onRank(
            Communicator communicator, Partition partition, ConvCase in, ConvOptions options, boolean withHandle) {
        int rank = communicator.rank();
        int tokens = partition.tokens(rank);
        Tensor y = rank == 0 ? Tensor.zeros(DType.BF16, in.rows(), in.channels()) : null;
        Tensor dx = rank == 0 ? Tensor.zeros(DType.BF16, in.rows(), in.channels()) : null;
        try (CpuConvEngine engine = new CpuConvEngine(1);
                KcpContext context = new KcpContext(partition, communicator, engine);
                Tensor x = local(partition, rank, in.x());
                Tensor dy = local(partition, rank, in.dy());
                Tensor yLocal = poisoned(tokens, in.channels());
                Tensor dxLocal = poisoned(tokens, in.channels())) {
            KcpConv1d conv = new KcpConv1d("layer0", options);
            RecomputeHandle handle = withHandle ? RecomputeHandle.create() : null;
            try (Checkpoint region = withHandle ? Checkpoint.of(handle) : Checkpoint.of()) {
                Saved saved = region.forward(() -> conv.forward(context, x, in.weight(), in.bias(), yLocal, handle));
                if (withHandle) {
                    saved.close();
                    yLocal.segment().fill((byte) 0xFF);
                    saved = region.recompute(() -> conv.forward(context, x, in.weight(), in.bias(), yLocal, handle));
                }
                try (Saved live = saved;
                        PartialGradients sums = conv.backward(live, dy, dxLocal)) {
                    Gradients reduced = conv.reduceGradients(List.of(sums), DType.F32);
                    Shards.gather(communicator, partition, "y", yLocal, y);
                    Shards.gather(communicator, partition, "dx", dxLocal, dx);
                    return new Sharded(y, dx, reduced.dweight(), reduced.dbias(), conv.exchanges());
                }
            } finally {
                if (handle != null) {
                    handle.clear();
                }
            }
        }
    }

    private static Tensor local(Partition partition, int rank, Tensor packed) {
        Tensor rows = poisoned(partition.tokens(rank), packed.columns());
        Shards.take(partition, rank, packed, rows);
        return rows;
    }

    private static Tensor poisoned(long rows, long channels) {
        Tensor tensor = Tensor.zeros(DType.BF16, rows, channels);
        tensor.segment().fill((byte) 0xFF);
        return tensor;
    }

    private static Gradients room(ConvCase in) {
        return new Gradients(
                Tensor.zeros(DType.BF16, in.rows(), in.channels()),
                Tensor.zeros(DType.F32, in.channels(), 4),
                in.bias() == null ? null : Tensor.zeros(DType.F32, in.channels()));
    }

    @Override
    public void close() {
        for (Tensor tensor : java.util.Arrays.asList(y, dx, dweight, dbias)) {
            if (tensor != null) {
                tensor.close();
            }
        }
    }
}
