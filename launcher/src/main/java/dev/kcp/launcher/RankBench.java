package dev.kcp.launcher;

import dev.kcp.bench.BenchReport;
import dev.kcp.bench.BenchRow;
import dev.kcp.bench.BenchShape;
import dev.kcp.bench.CpuBench;
import dev.kcp.bench.ExchangeBench;
import dev.kcp.bench.StepBench;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.comm.RankInfo;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.core.Layout;
import dev.kcp.train.TrainEngine;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.time.Duration;
import java.util.List;
import java.util.function.IntUnaryOperator;

/**
 * A measurement that ranks make together, as {@code kcp bench} was told.
 *
 * @param op one of those of ranks
 * @param shapes S of each is one rank's share
 * @param sizes bytes of the exchanges
 * @param iterations timed runs
 * @param threads CPU threads of a rank, by how many ranks share the machine
 */
record RankBench(
        BenchCommand.Op op,
        List<BenchShape> shapes,
        List<Long> sizes,
        Layout layout,
        ConvOptions options,
        TrainBenchOptions train,
        int iterations,
        IntUnaryOperator threads) {

    /** On this process's rank of a job. */
    BenchReport onRank(RankInfo me, RankRun run, boolean gpu) {
        int cores = threads.applyAsInt(me.localWorldSize());
        if (op == BenchCommand.Op.TRAIN) {
            return run.asTrainer(me, gpu, cores, (group, engine) -> ofTrainer(group, engine, cores));
        }
        return gpu
                ? run.onGpu(me, (group, engine) -> ofConv(group, engine, cores))
                : run.onCpu(me, cores, (group, engine) -> ofConv(group, engine, cores));
    }

    /** On ranks that are threads of this process. */
    BenchReport onThreads(int ranks, Duration deadline) {
        int cores = threads.applyAsInt(ranks);
        return LocalRanks.run(ranks, deadline, group -> {
                    if (op == BenchCommand.Op.TRAIN) {
                        try (TrainEngine engine = new CpuTrainEngine(cores)) {
                            return ofTrainer(group, engine, cores);
                        }
                    }
                    try (CpuConvEngine engine = new CpuConvEngine(cores)) {
                        return ofConv(group, engine, cores);
                    }
                })
                .getFirst();
    }

    private BenchReport ofTrainer(Communicator group, TrainEngine engine, int cores) {
        return report(engine.conv(), cores, train.rows(group, engine, shapes, layout, iterations));
    }

    private BenchReport ofConv(Communicator group, ConvEngine engine, int cores) {
        return report(
                engine,
                cores,
                op == BenchCommand.Op.STEP
                        ? new StepBench(group, engine, layout, options, iterations).run(shapes)
                        : new ExchangeBench(group, engine, iterations).run(sizes));
    }

    private static BenchReport report(ConvEngine engine, int cores, List<BenchRow> rows) {
        String where = engine instanceof CpuConvEngine
                ? CpuBench.threads(cores) + " a rank"
                : DeviceCopies.of(engine).deviceName();
        return new BenchReport(CpuBench.machine(), where, 0, Version.commit(), rows);
    }
}
