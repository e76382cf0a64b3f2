package dev.kcp.launcher;

import dev.kcp.Words;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclLibrary;
import dev.kcp.nccl.Route;
import dev.kcp.train.TrainEngine;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;

/**
 * How this process takes part in a job as one of its ranks: it joins the others, runs, tells them if it fails, and leaves.
 *
 * @param deadline longest wait for another rank
 */
record RankRun(Map<String, String> environment, Duration deadline) {
    /** On a GPU of its own, connected by NCCL. */
    <T> T onGpu(RankInfo me, BiFunction<Communicator, ConvEngine, T> body) {
        Path library = NcclLibrary.require(environment);
        try (CudaConvEngine engine = CudaConvEngine.open(CudaDevice.ordinalFor(me.localRank()));
                Communicator communicator =
                        NcclCommunicator.join(me, engine.stream(), library, deadline, Route.from(environment))) {
            return run(communicator, engine, body);
        }
    }

    /** On the CPU, connected by sockets. */
    <T> T onCpu(RankInfo me, int threads, BiFunction<Communicator, ConvEngine, T> body) {
        return onCpu(me, new CpuConvEngine(threads), body);
    }

    /** As the other form; closes the engine. */
    <T> T onCpu(RankInfo me, CpuConvEngine own, BiFunction<Communicator, ConvEngine, T> body) {
        try (CpuConvEngine engine = own;
                Communicator communicator = TcpCommunicator.join(me, deadline)) {
            return run(communicator, engine, body);
        }
    }

    /** With the trainer's programs, on either device. */
    <T> T asTrainer(RankInfo me, boolean gpu, int threads, BiFunction<Communicator, TrainEngine, T> body) {
        try (TrainRank rank = gpu
                ? TrainRank.onCuda(Optional.of(me), environment, deadline)
                : TrainRank.onCpu(Optional.of(me), threads, deadline)) {
            return run(rank.communicator(), rank.engine(), body);
        }
    }

    private <E, T> T run(Communicator communicator, E engine, BiFunction<Communicator, E, T> body) {
        CallLog.watch(environment, communicator);
        try {
            return body.apply(communicator, engine);
        } catch (RuntimeException failure) {
            communicator.abort(Words.of(failure));
            throw failure;
        }
    }
}
