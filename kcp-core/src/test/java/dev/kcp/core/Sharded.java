package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.ReferenceConv;
import dev.kcp.conv.Tolerance;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.time.Duration;
import java.util.List;
import java.util.function.BiFunction;

/** One forward and backward, sharded over thread ranks or unsharded, gathered into batch order on the host. */
public record Sharded(Tensor y, Tensor dx, Tensor dweight, Tensor dbias, ExchangeCounts exchanges)
        implements AutoCloseable {
    public static final Duration DEADLINE = Eventually.LIMIT;

    /** Where ranks compute, and how tensors get there. */
    public interface Place {
        /** Runs the body on every rank. */
        <T> List<T> run(int ranks, BiFunction<Communicator, ConvEngine, T> body);

        /** Takes a host tensor; gives it on the device. */
        Tensor toDevice(ConvEngine engine, Tensor host);

        /** Takes a tensor on the device; gives it on the host. */
        Tensor toHost(ConvEngine engine, Tensor device);
    }

    /** Threads of one core each. */
    public static final Place ON_CPU = new Place() {
        @Override
        public <T> List<T> run(int ranks, BiFunction<Communicator, ConvEngine, T> body) {
            return LocalRanks.run(ranks, DEADLINE, communicator -> {
                try (CpuConvEngine engine = new CpuConvEngine(1)) {
                    return body.apply(communicator, engine);
                }
            });
        }

        @Override
        public Tensor toDevice(ConvEngine engine, Tensor host) {
            return host;
        }

        @Override
        public Tensor toHost(ConvEngine engine, Tensor device) {
            return device;
        }
    };

    /** One rank, on the CPU, by the single-rank op. */
    public static Sharded alone(ConvCase in, ConvOptions options) {
        Gradients out = room(in);
        try (CpuConvEngine engine = new CpuConvEngine(1)) {
            CausalConv1d conv = new CausalConv1d(engine, options);
            Tensor y = conv.forward(in.x(), in.weight(), in.bias(), in.offsets(), null);
            conv.backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), out);
            return new Sharded(y, out.dx(), out.dweight(), out.dbias(), ExchangeCounts.NONE);
        }
    }

    static Sharded over(Partition partition, ConvCase in, ConvOptions options, boolean withHandle) {
        return over(ON_CPU, partition, in, options, withHandle);
    }

    /**
     * Compares a place's ranks with the unsharded op: y and dx to the bit, dweight and dbias to the bit where the partition is
     * tree-exact, and one exchange each way.
     */
    public static void assertParity(
            Place place, Partition partition, ConvCase in, ConvOptions options, boolean withHandle) {
        try (Sharded expected = alone(in, options);
                Sharded got = over(place, partition, in, options, withHandle)) {
            assertSameBits("y", got.y(), expected.y());
            assertSameBits("dx", got.dx(), expected.dx());
            if (partition.isTreeExact()) {
                assertSameBits("dweight", got.dweight(), expected.dweight());
                if (in.bias() != null) {
                    assertSameBits("dbias", got.dbias(), expected.dbias());
                }
            } else {
                Tolerance.assertSums(
                        got.dweight(), got.dbias(), ReferenceConv.run(in, options.policy()), options.policy());
            }
            assertThat(got.exchanges()).isEqualTo(new ExchangeCounts(1, 0, 1));
        }
    }

    /** Every rank's dweight is compared with rank 0's. */
    public static Sharded over(Place place, Partition partition, ConvCase in, ConvOptions options, boolean withHandle) {
        List<Sharded> results = place.run(
                partition.ranks(),
                (communicator, engine) -> onRank(place, communicator, engine, partition, in, options, withHandle));
        for (int rank = 1; rank < results.size(); rank++) {
            assertSameBits(
                    "dweight of rank " + rank,
                    results.get(rank).dweight(),
                    results.getFirst().dweight());
            results.get(rank).close();
        }
        return results.getFirst();
    }

    private static Sharded onRank(
            Place place,
            Communicator communicator,
            ConvEngine engine,
            Partition partition,
            ConvCase in,
            ConvOptions options,
            boolean withHandle) {
        int rank = communicator.rank();
        int tokens = partition.tokens(rank);
        Tensor y = rank == 0 ? Tensor.zeros(DType.BF16, in.rows(), in.channels()) : null;
        Tensor dx = rank == 0 ? Tensor.zeros(DType.BF16, in.rows(), in.channels()) : null;
        try (KcpContext context = new KcpContext(partition, communicator, engine);
                Tensor x = place.toDevice(engine, local(partition, rank, in.x()));
                Tensor dy = in.dy() == null ? null : place.toDevice(engine, local(partition, rank, in.dy()));
                Tensor weight = place.toDevice(engine, copyOf(in.weight()));
                Tensor bias = in.bias() == null ? null : place.toDevice(engine, copyOf(in.bias()));
                Tensor yLocal = place.toDevice(engine, poisoned(tokens, in.channels()));
                Tensor dxLocal = place.toDevice(engine, poisoned(tokens, in.channels()))) {
            KcpConv1d conv = new KcpConv1d("layer0", options);
            RecomputeHandle handle = withHandle ? RecomputeHandle.create() : null;
            try (Checkpoint region = withHandle ? Checkpoint.of(handle) : Checkpoint.of()) {
                Saved saved = region.forward(() -> conv.forward(context, x, weight, bias, yLocal, handle));
                if (withHandle) {
                    saved.close();
                    saved = region.recompute(() -> conv.forward(context, x, weight, bias, dxLocal, handle));
                }
                try (Saved live = saved;
                        Tensor again = withHandle ? place.toHost(engine, copyOf(engine, dxLocal)) : null;
                        PartialGradients sums = conv.backward(live, dy, dxLocal)) {
                    Gradients reduced = conv.reduceGradients(List.of(sums), DType.F32);
                    Communicator host = communicator.host();
                    try (Tensor yHost = place.toHost(engine, yLocal);
                            Tensor dxHost = place.toHost(engine, dxLocal)) {
                        if (again != null) {
                            assertSameBits("y of the recompute", again, yHost);
                        }
                        Shards.gather(host, partition, "y", yHost, y);
                        Shards.gather(host, partition, "dx", dxHost, dx);
                    }
                    return new Sharded(
                            y,
                            dx,
                            place.toHost(engine, reduced.dweight()),
                            bias == null ? null : place.toHost(engine, reduced.dbias()),
                            conv.exchanges());
                }
            } finally {
                if (handle != null) {
                    handle.clear();
                }
            }
        }
    }

    private static Tensor copyOf(Tensor host) {
        Tensor copy = Tensor.zeros(host.dtype(), host.shape());
        copy.segment().copyFrom(host.segment());
        return copy;
    }

    private static Tensor copyOf(ConvEngine engine, Tensor rows) {
        Tensor copy = engine.allocate(rows.dtype(), rows.shape());
        engine.rowOps().copyColumns(rows, 0, copy, 0, rows.columns());
        return copy;
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
