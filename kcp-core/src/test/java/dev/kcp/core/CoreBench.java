package dev.kcp.core;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.HostAndPort;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.Segment;
import dev.kcp.comm.StoreServer;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Times of plan building and of the halo's share in a step, as JSON on stdout; see benchmarks/core.md. Medians of 20 after
 * 20 that are not counted.
 */
final class CoreBench {
    private static final int RUNS = 20;
    private static final int PLAN_WARM_UPS = 200;
    private static final int LATENCY_EXCHANGES = 500;
    private static final Duration DEADLINE = Duration.ofSeconds(120);

    private CoreBench() {}

    public static void main(String[] args) {
        ObjectNode json = new ObjectMapper().createObjectNode();
        json.put("jdk", Runtime.version().toString());
        json.put("cores", Runtime.getRuntime().availableProcessors());
        plans(json.putArray("plan_building"));
        for (String transport : List.of("local", "tcp")) {
            latency(transport, json.withArray("exchange_latency"));
        }
        halo(json.putArray("halo_share"));
        System.out.println(json.toPrettyString());
    }

    /** As {@link #medianMillis}, of this thread's own time on a processor, which other processes do not lengthen. */
    private static double medianCpuMillis(int warmUps, Runnable body) {
        ThreadMXBean own = ManagementFactory.getThreadMXBean();
        double[] millis = new double[RUNS];
        for (int i = -warmUps; i < RUNS; i++) {
            long begin = own.getCurrentThreadCpuTime();
            body.run();
            if (i >= 0) {
                millis[i] = (own.getCurrentThreadCpuTime() - begin) / 1e6;
            }
        }
        Arrays.sort(millis);
        return (millis[RUNS / 2 - 1] + millis[RUNS / 2]) / 2;
    }

    private static double medianMillis(Runnable body) {
        return medianMillis(RUNS, body);
    }

    private static double medianMillis(int warmUps, Runnable body) {
        double[] millis = new double[RUNS];
        for (int i = -warmUps; i < RUNS; i++) {
            long begin = System.nanoTime();
            body.run();
            if (i >= 0) {
                millis[i] = (System.nanoTime() - begin) / 1e6;
            }
        }
        Arrays.sort(millis);
        return (millis[RUNS / 2 - 1] + millis[RUNS / 2]) / 2;
    }

    /** Offsets to a context of rank 3 of 8, as a data loader would build it; nobody is waited for. */
    private static void plans(ArrayNode rows) {
        Random random = new Random(1);
        int[] lengths = random.ints(10_000, 1, 400).toArray();
        for (Layout layout : Layout.values()) {
            for (int align : new int[] {1, 64}) {
                List<Communicator> group = LocalCommunicator.group(8, DEADLINE);
                try (ConvEngine engine = new CpuConvEngine(1)) {
                    Supplier<KcpContext> build = () -> new KcpContext(
                            Partition.of(layout, CuSeqlens.ofLengths(lengths), 8, align), group.get(3), engine);
                    double millis =
                            medianMillis(PLAN_WARM_UPS, () -> build.get().close());
                    double partition = medianMillis(() -> Partition.of(layout, CuSeqlens.ofLengths(lengths), 8, align));
                    RankPlan plan = new RankPlan(
                            Partition.of(layout, CuSeqlens.ofLengths(lengths), 8, align), HistoryCounts.NONE, 3);
                    rows.addObject()
                            .put("layout", layout.label())
                            .put("align", align)
                            .put("documents", lengths.length)
                            .put("ranks", 8)
                            .put("local_fragments", plan.tables().fragments())
                            .put("millis", millis)
                            .put("cpu_millis", medianCpuMillis(0, () -> build.get()
                                    .close()))
                            .put("millis_of_partition", partition);
                }
            }
        }
    }

    /** Two ranks of one process that send each other as many bytes at once. */
    private static void latency(String transport, ArrayNode rows) {
        for (int bytes : new int[] {24 << 10, 1 << 20}) {
            List<Double> micros = onPair(transport, communicator -> {
                try (Tensor mine = Tensor.zeros(DType.BF16, bytes / 2);
                        Tensor theirs = Tensor.zeros(DType.BF16, bytes / 2)) {
                    int peer = 1 - communicator.rank();
                    double[] times = new double[LATENCY_EXCHANGES];
                    for (int i = -LATENCY_EXCHANGES; i < LATENCY_EXCHANGES; i++) {
                        communicator.barrier("bench");
                        long begin = System.nanoTime();
                        communicator
                                .exchange(
                                        Call.of(Call.Kind.EXCHANGE, "bench"),
                                        List.of(new Segment(peer, mine.address(), bytes)),
                                        List.of(new Segment(peer, theirs.address(), bytes)))
                                .await();
                        if (i >= 0) {
                            times[i] = (System.nanoTime() - begin) / 1e3;
                        }
                    }
                    Arrays.sort(times);
                    return times[LATENCY_EXCHANGES / 2];
                }
            });
            rows.addObject()
                    .put("transport", transport)
                    .put("bytes_each_way", bytes)
                    .put("micros", Math.max(micros.get(0), micros.get(1)));
        }
    }

    private static List<Double> onPair(String transport, Function<Communicator, Double> body) {
        if (transport.equals("local")) {
            return LocalRanks.run(2, DEADLINE, body);
        }
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "bench", "secret");
                ExecutorService threads = Executors.newFixedThreadPool(2)) {
            List<Future<Double>> ends = new ArrayList<>();
            for (int r = 0; r < 2; r++) {
                HostAndPort meet = new HostAndPort("127.0.0.1", store.port());
                RankInfo me = new RankInfo(r, r, 2, 2, null, 0, meet, "bench", "secret");
                ends.add(threads.submit(() -> {
                    try (Communicator communicator = TcpCommunicator.join(me, DEADLINE)) {
                        return body.apply(communicator);
                    }
                }));
            }
            return List.of(ends.get(0).get(), ends.get(1).get());
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    /** One forward and backward with the exchange beside main, without, and the exchange's own time, by ranks. */
    private static void halo(ArrayNode rows) {
        for (int ranks : new int[] {2, 4, 8, 16}) {
            int perRank = ranks == 2 ? 8192 : 1024;
            Partition partition = Partition.of(Layout.ZIGZAG, CuSeqlens.ofLengths(ranks * perRank), ranks, 64);
            double[] with = step(partition, true);
            double[] without = step(partition, false);
            rows.addObject()
                    .put("transport", "local")
                    .put("ranks", ranks)
                    .put("tokens_per_rank", perRank)
                    .put("channels", 1024)
                    .put("millis_of_step", with[0])
                    .put("millis_of_step_without_overlap", without[0])
                    .put("millis_of_exchanges_alone", with[1])
                    .put("share_of_exchanges", with[1] / with[0]);
        }
    }

    /** Median milliseconds of a step, and of its two exchanges without any program. */
    private static double[] step(Partition partition, boolean overlap) {
        List<double[]> all = LocalRanks.run(partition.ranks(), DEADLINE, communicator -> {
            int tokens = partition.tokens(communicator.rank());
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = new KcpContext(partition, communicator, engine);
                    ConvCase in = ConvCase.random(1, 1024, tokens);
                    Tensor y = Tensor.zeros(DType.BF16, tokens, 1024);
                    Tensor pool = Tensor.zeros(DType.BF16, context.forwardPoolRows(), 1024);
                    Tensor head =
                            Tensor.zeros(DType.F32, Math.max(1, context.shard().headRows()), 1024);
                    Tensor received = Tensor.zeros(DType.F32, context.backwardPoolRows(), 1024)) {
                KcpConv1d conv = overlap
                        ? new KcpConv1d("layer0", ConvOptions.DEFAULT)
                        : KcpConv1d.inSeries("layer0", ConvOptions.DEFAULT);
                double whole = medianMillis(() -> {
                    try (Saved saved = conv.forward(context, in.x(), in.weight(), null, y, null)) {
                        conv.backward(saved, in.dy(), y).close();
                    }
                });
                double exchanges = medianMillis(() -> {
                    exchange(context, context.forwardTransfers(), in.x(), pool);
                    exchange(context, context.backwardTransfers(), head, received);
                });
                return new double[] {whole, exchanges};
            }
        });
        return new double[] {
            all.stream().mapToDouble(times -> times[0]).max().orElseThrow(),
            all.stream().mapToDouble(times -> times[1]).max().orElseThrow()
        };
    }

    private static void exchange(KcpContext context, HaloTransfers transfers, Tensor source, Tensor pool) {
        Call call = Call.of(Call.Kind.EXCHANGE, "bench");
        transfers
                .start(
                        context.communicator(),
                        call,
                        List.of(new HaloTransfers.Source(source, null)),
                        List.of(pool),
                        null)
                .await();
    }
}
