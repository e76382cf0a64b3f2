package dev.kcp.bench;

import dev.kcp.comm.Communicator;
import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.Layout;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.Partition;
import dev.kcp.core.Saved;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclGraph;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;

/**
 * Times one layer's context-parallel convolution on every rank against the single-rank op of as many tokens in the same
 * run, which is its floor: what remains is what the halo costs. A collective run; rank 0 has the rows.
 *
 * <p>S of a shape is one rank's share. Several layers run one after another on tensors of their own, so that none is found
 * in the cache; a time is that of all of them over their number, on the slowest rank.
 */
public final class StepBench {
    private static final long ROTATION_BYTES = 400L << 20;
    private static final int MOST_LAYERS = 8;
    private static final int WARM_RUNS = 5;
    private static final int WARM_HOST_RUNS = 30;
    /** So that the host's part is compiled before it counts. */
    private static final int WARM_CALLS = 3000;

    private final Communicator communicator;
    private final ConvEngine engine;
    private final Layout layout;
    private final ConvOptions options;
    private final int iterations;
    private final RankClock clock;
    private final List<BenchRow> rows = new ArrayList<>();

    /** Tensors of one layer. */
    private record Buffers(Tensor x, Tensor dy, Tensor y, Tensor dx) {}

    /** How work is given to the device. */
    private enum Mode {
        EAGER,
        GRAPH;

        String label() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /**
     * A bench of this group; every rank makes one.
     *
     * @param communicator on the engine's device
     */
    public StepBench(Communicator communicator, ConvEngine engine, Layout layout, ConvOptions options, int iterations) {
        this.communicator = communicator;
        this.engine = engine;
        this.layout = layout;
        this.options = options;
        this.iterations = iterations;
        clock = RankClock.of(engine);
    }

    /** Measures every shape. */
    public List<BenchRow> run(List<BenchShape> shapes) {
        shapes.forEach(this::measure);
        return List.copyOf(rows);
    }

    private void measure(BenchShape shape) {
        boolean onGpu = engine instanceof CudaConvEngine;
        if (engine instanceof CudaConvEngine cuda) {
            cuda.prepare(shape.tokens(), shape.channels());
        }
        int ranks = communicator.size();
        int[] lengths = new int[shape.documents() * ranks];
        Arrays.fill(lengths, shape.tokens() / shape.documents());
        // Documents begin half a length before each rank's first token, so that one lies over every cut.
        CuSeqlens batch = shape.documents() == 1 ? CuSeqlens.ofLengths(shape.tokens() * ranks) : shifted(lengths);
        Partition partition = Partition.of(layout, batch, ranks, 64);
        long elements = (long) shape.tokens() * shape.channels();
        int layers = onGpu ? Math.clamp(ROTATION_BYTES / (elements * 2) + 1, 2, MOST_LAYERS) : 1;
        List<Tensor> owned = new ArrayList<>();
        try (KcpContext context = new KcpContext(partition, communicator, engine)) {
            List<Buffers> buffers = new ArrayList<>();
            for (int i = 0; i < layers; i++) {
                buffers.add(new Buffers(
                        tensor(owned, context.localTokens(), shape.channels()),
                        tensor(owned, context.localTokens(), shape.channels()),
                        tensor(owned, context.localTokens(), shape.channels()),
                        tensor(owned, context.localTokens(), shape.channels())));
            }
            Tensor weight = RandomRows.taps(engine, shape.channels());
            owned.add(weight);
            for (Mode mode : Mode.values()) {
                if (mode == Mode.EAGER || onGpu) {
                    measure(shape, mode, context, buffers, weight);
                }
            }
        } finally {
            CloseStack.closeAll(owned);
        }
    }

    private static CuSeqlens shifted(int[] lengths) {
        int[] all = new int[lengths.length + 1];
        System.arraycopy(lengths, 0, all, 1, lengths.length);
        all[0] = lengths[0] / 2;
        all[lengths.length] -= all[0];
        return CuSeqlens.ofLengths(all);
    }

    private Tensor tensor(List<Tensor> owned, int tokens, int channels) {
        Tensor tensor = RandomRows.normal(engine, tokens, channels);
        owned.add(tensor);
        return tensor;
    }

    private void measure(BenchShape shape, Mode mode, KcpContext context, List<Buffers> buffers, Tensor weight) {
        Alone alone = new Alone(engine, options, weight, buffers);
        RankTimes forward = time(mode, "alone forward", alone::forward, buffers.size());
        RankTimes both = time(mode, "alone step", alone::both, buffers.size());
        alone.close();
        row("forward", shape, "alone-" + mode.label(), forward, forward, 0);
        row("step", shape, "alone-" + mode.label(), both, both, 0);
        Sharded overlapping = new Sharded(context, new KcpConv1d("overlap", options), weight, buffers);
        measure(shape, mode, overlapping, forward, both);
        measure(shape, mode, overlapping.with(context, KcpConv1d.inSeries("series", options)), forward, both);
        if (engine instanceof CudaConvEngine) {
            try (HollowExchanges silent = new HollowExchanges(communicator, engine, HollowExchanges.ALL);
                    KcpContext hollow = new KcpContext(context.partition(), silent, engine)) {
                measure(shape, mode, overlapping.with(hollow, new KcpConv1d("events", options)), forward, both);
            }
        }
        RankTimes reduced = time(mode, "reduce", overlapping::bothReduced, buffers.size());
        row("step+reduce", shape, name(mode, "overlap"), reduced, both, context.commBytes(shape.channels()));
    }

    private void measure(BenchShape shape, Mode mode, Sharded sharded, RankTimes forwardAlone, RankTimes bothAlone) {
        String way = sharded.conv().label();
        long bytes = sharded.context().commBytes(shape.channels());
        RankTimes forward = time(mode, way + " forward", sharded::forward, sharded.layers());
        row("forward", shape, name(mode, way), forward, forwardAlone, bytes);
        RankTimes both = time(mode, way + " step", sharded::both, sharded.layers());
        row("step", shape, name(mode, way), both, bothAlone, bytes);
    }

    private String name(Mode mode, String way) {
        return route(communicator) + "x" + communicator.size() + "-" + layout.label() + "-" + way + "-" + mode.label();
    }

    /** How its rows travel. */
    static String route(Communicator communicator) {
        boolean direct = communicator instanceof NcclCommunicator nccl
                && IntStream.range(0, nccl.size()).anyMatch(nccl::isDirect);
        return direct ? "direct" : communicator.transport();
    }

    private void row(String op, BenchShape shape, String program, RankTimes times, RankTimes alone, long bytes) {
        rows.add(new BenchRow(
                op,
                shape.tokens(),
                shape.channels(),
                shape.documents(),
                program,
                0,
                iterations,
                times.median(),
                times.fastest(),
                bytes,
                alone.median()));
    }

    /** Milliseconds of one layer: the median over runs, the most over ranks. */
    private RankTimes time(Mode mode, String name, Runnable layers, int count) {
        clock.millis(layers, engine instanceof CudaConvEngine ? WARM_CALLS / count : WARM_HOST_RUNS);
        if (mode == Mode.EAGER) {
            return clocked(layers).of(count);
        }
        if (communicator instanceof NcclCommunicator nccl) {
            try (NcclGraph graph = nccl.capture(name, layers)) {
                return clocked(graph::replay).of(count);
            }
        }
        try (CudaGraph graph = CudaGraph.capture(((CudaConvEngine) engine).stream(), layers)) {
            return clocked(graph::launch).of(count);
        }
    }

    private RankTimes clocked(Runnable body) {
        return RankTimes.measure(communicator, clock, body, WARM_RUNS, iterations);
    }

    /** The single-rank op on as many tokens. */
    private static final class Alone implements AutoCloseable {
        private final CausalConv1d conv;
        private final Tensor weight;
        private final Tensor offsets;
        private final Tensor dweight;
        private final List<Buffers> buffers;

        Alone(ConvEngine engine, ConvOptions options, Tensor weight, List<Buffers> buffers) {
            conv = new CausalConv1d(engine, options);
            this.weight = weight;
            this.buffers = buffers;
            offsets = RandomRows.ints(engine, 0, (int) buffers.getFirst().x().rows());
            dweight = engine.allocate(DType.F32, weight.rows(), 4);
        }

        void forward() {
            for (Buffers on : buffers) {
                conv.forward(on.x(), weight, null, offsets, on.y());
            }
        }

        void both() {
            for (Buffers on : buffers) {
                conv.forward(on.x(), weight, null, offsets, on.y());
                conv.backward(on.x(), weight, null, offsets, on.dy(), new Gradients(on.dx(), dweight, null));
            }
        }

        @Override
        public void close() {
            CloseStack.closeAll(dweight, offsets);
        }
    }

    /** The context-parallel op; its label is how it goes about the exchange. */
    private record Sharded(KcpContext context, KcpConv1d conv, Tensor weight, List<Buffers> buffers) {
        Sharded with(KcpContext other, KcpConv1d way) {
            return new Sharded(other, way, weight, buffers);
        }

        int layers() {
            return buffers.size();
        }

        void forward() {
            for (Buffers on : buffers) {
                conv.forward(context, on.x(), weight, null, on.y()).close();
            }
        }

        void both() {
            for (Buffers on : buffers) {
                try (Saved saved = conv.forward(context, on.x(), weight, null, on.y())) {
                    conv.backward(saved, on.dy(), on.dx()).close();
                }
            }
        }

        void bothReduced() {
            for (Buffers on : buffers) {
                try (Saved saved = conv.forward(context, on.x(), weight, null, on.y());
                        PartialGradients sums = conv.backward(saved, on.dy(), on.dx())) {
                    conv.reduceGradients(List.of(sums), DType.F32).dweight().close();
                }
            }
        }
    }
}
