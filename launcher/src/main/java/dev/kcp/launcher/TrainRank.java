package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.Words;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclLibrary;
import dev.kcp.nccl.Route;
import dev.kcp.train.TrainEngine;
import dev.kcp.train.cpu.CpuTrainEngine;
import dev.kcp.train.cuda.CublasLibrary;
import dev.kcp.train.cuda.CudaTrainEngine;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * One rank of a training run: the programs of its device, and the communicator that connects such devices.
 *
 * @param communicator closed first: its recorded steps use the engine's memory
 */
record TrainRank(TrainEngine engine, Communicator communicator) implements AutoCloseable {
    /** Whether each rank of this machine has a GPU that the driver's files show. */
    static boolean hasGpus(int localRanks, Map<String, String> environment) {
        int visible =
                Gpus.visible(environment.get(Gpus.VISIBLE), Gpus.present()).size();
        return visible > 0 && visible >= localRanks;
    }

    /**
     * Looks for all that ranks on GPUs need before any is started.
     *
     * @throws dev.kcp.KcpException with code MISSING_DEVICE, saying what is missing
     */
    static void requireCuda(int localRanks, Map<String, String> environment) {
        int devices = CudaDevice.count();
        if (devices < localRanks) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "each rank wants a GPU of its own: ranks=" + localRanks + " visibleDevices=" + devices);
        }
        CublasLibrary.require(environment);
        if (localRanks > 1) {
            NcclLibrary.require(environment);
        }
    }

    /** A rank on the CPU. */
    static TrainRank onCpu(Optional<RankInfo> me, int threads, Duration deadline) {
        Communicator communicator = me.<Communicator>map(rank -> TcpCommunicator.join(rank, deadline))
                .orElseGet(() -> LocalCommunicator.group(1, deadline).getFirst());
        try {
            return new TrainRank(new CpuTrainEngine(threads), communicator);
        } catch (RuntimeException failure) {
            communicator.abort(Words.of(failure));
            communicator.close();
            throw failure;
        }
    }

    /** A rank on a GPU of its own. */
    static TrainRank onCuda(Optional<RankInfo> me, Map<String, String> environment, Duration deadline) {
        Path cublas = CublasLibrary.require(environment);
        int ordinal = CudaDevice.ordinalFor(me.map(RankInfo::localRank).orElse(0));
        CudaTrainEngine engine = CudaTrainEngine.open(ordinal, cublas);
        try {
            if (me.isEmpty()) {
                return new TrainRank(
                        engine, LocalCommunicator.group(1, deadline).getFirst());
            }
            Path nccl = me.get().worldSize() == 1 ? null : NcclLibrary.require(environment);
            NcclCommunicator group =
                    NcclCommunicator.join(me.get(), engine.stream(), nccl, deadline, Route.from(environment));
            engine.join(group);
            return new TrainRank(engine, group);
        } catch (RuntimeException failure) {
            engine.close();
            throw failure;
        }
    }

    @Override
    public void close() {
        try (engine) {
            communicator.close();
        }
    }
}
