package dev.kcp.bench;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclGraph;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * Times exchanges of rows with the next rank, as a halo makes them, one right after another on every rank. A collective
 * run; rank 0 has the rows. A row's floor is the copy of as many bytes on one device.
 */
public final class ExchangeBench {
    private static final int IN_A_ROW = 20;
    private static final int WARM_RUNS = 5;
    /** Before the first, on a GPU: what the host runs for a call is compiled by then. */
    private static final int WARM_DEVICE_RUNS = 300;

    private final Communicator communicator;
    private final ConvEngine engine;
    private final int iterations;
    private final RankClock clock;

    /**
     * A bench of this group; every rank makes one.
     *
     * @param communicator on the engine's device, of two ranks or more
     */
    public ExchangeBench(Communicator communicator, ConvEngine engine, int iterations) {
        if (communicator.size() < 2) {
            throw new IllegalArgumentException("an exchange needs two ranks: world=" + communicator.size());
        }
        this.communicator = communicator;
        this.engine = engine;
        this.iterations = iterations;
        clock = RankClock.of(engine);
    }

    /**
     * Measures each size.
     *
     * @param sizes bytes that each rank sends
     */
    public List<BenchRow> run(List<Long> sizes) {
        List<BenchRow> rows = new ArrayList<>();
        for (long bytes : sizes) {
            try (Tensor out = engine.allocate(DType.F32, bytes / Float.BYTES);
                    Tensor in = engine.allocate(DType.F32, bytes / Float.BYTES)) {
                engine.rowOps().zero(out);
                Runnable exchanges = () -> {
                    for (int i = 0; i < IN_A_ROW; i++) {
                        exchange(out, in, bytes);
                    }
                };
                Runnable copies = () -> {
                    for (int i = 0; i < IN_A_ROW; i++) {
                        engine.rowOps().copyColumns(out, 0, in, 0, out.columns());
                    }
                };
                if (engine instanceof CudaConvEngine) {
                    clock.millis(exchanges, WARM_DEVICE_RUNS);
                }
                RankTimes floor = clocked(copies);
                rows.add(row("eager", bytes, clocked(exchanges), floor));
                if (engine instanceof CudaConvEngine cuda && communicator instanceof NcclCommunicator nccl) {
                    try (NcclGraph graph = nccl.capture("exchanges", exchanges);
                            CudaGraph plain = CudaGraph.capture(cuda.stream(), copies)) {
                        rows.add(row("graph", bytes, clocked(graph::replay), clocked(plain::launch)));
                    }
                }
            }
        }
        return rows;
    }

    private void exchange(Tensor out, Tensor in, long bytes) {
        int ranks = communicator.size();
        int next = (communicator.rank() + 1) % ranks;
        int before = (communicator.rank() + ranks - 1) % ranks;
        Call call = new Call(Call.Kind.EXCHANGE, "bench", bytes, DType.F32, 0);
        communicator
                .exchange(
                        call,
                        List.of(new Segment(next, out.address(), bytes)),
                        List.of(new Segment(before, in.address(), bytes)))
                .await();
    }

    private BenchRow row(String mode, long bytes, RankTimes times, RankTimes floor) {
        String program = StepBench.route(communicator) + "x" + communicator.size() + "-" + mode;
        return new BenchRow(
                "exchange",
                1,
                bytes,
                1,
                program,
                0,
                iterations,
                times.median(),
                times.fastest(),
                bytes,
                floor.median());
    }

    /** Of one exchange of many in a row. */
    private RankTimes clocked(Runnable many) {
        return RankTimes.measure(communicator, clock, many, WARM_RUNS, iterations)
                .of(IN_A_ROW);
    }
}
