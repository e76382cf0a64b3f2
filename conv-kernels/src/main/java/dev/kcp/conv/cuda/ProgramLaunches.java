package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cuda.Kernels.Kernel;
import dev.kcp.cuda.Launcher;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;

/** How many blocks of which kernel each program launches. The argument block was filled by the caller. */
final class ProgramLaunches {
    private static final int ROUND_THREADS = 256;
    /** Threads of reduce: columns of sums, and the parts of a column. */
    private static final int REDUCE_COLUMNS = 32;

    static final int REDUCE_PARTS = 8;

    private final Kernels kernels;
    private final Launcher launcher;

    ProgramLaunches(Kernels kernels, Launcher launcher) {
        this.kernels = kernels;
        this.launcher = launcher;
    }

    /** Looks every program up, but for the one of checked mode, so that none is loaded by a later call. */
    void loadAll() {
        for (ConvProgram program : ConvProgram.ALL) {
            if (program.part() != ConvProgram.Part.CHECK_OFFSETS) {
                kernels.get(program);
            }
        }
    }

    /** A warp per so many rows and channel tile. */
    void forwardMain(CudaShard shard, Operands in, ConvOptions options, long rows) {
        Kernel kernel = kernels.get(ConvProgram.forwardMain(in, options, shard.hasTables()));
        int rowsPerWarp = kernel.program().rowsPerWarp();
        launchWarps(kernel, (rows + rowsPerWarp - 1) / rowsPerWarp * ConvProgram.tiles(in.channels()));
    }

    /** On the queue, a stream's handle, or with 0 on the engine's stream. */
    void forwardSeam(CudaShard shard, Operands in, ConvOptions options, long queue) {
        launcher.queue(queue);
        try {
            launchFragments(kernels.get(ConvProgram.forwardSeam(options)), shard, in);
        } finally {
            launcher.queue(0);
        }
    }

    void head(CudaShard shard, Operands in, ConvOptions options) {
        launchFragments(kernels.get(ConvProgram.backwardHead(options)), shard, in);
    }

    void owed(CudaShard shard, Operands in) {
        launchFragments(kernels.get(ConvProgram.backwardOwed()), shard, in);
    }

    /** A block per group of leaves and channel tile. */
    void backwardMain(CudaShard shard, Operands in, ConvOptions options) {
        Kernel kernel = kernels.get(ConvProgram.backwardMain(in, options, shard.hasTables()));
        launcher.launch(
                kernel.name(),
                kernel.function(),
                shard.groups() * ConvProgram.tiles(in.channels()),
                1,
                ConvProgram.blockThreads(),
                1,
                kernel.program().sharedBytes(),
                false);
    }

    /** Starts before main has ended, and waits for that end on the device. */
    void backwardReduce(CudaShard shard, Operands in, ConvOptions options) {
        if (shard.ranges() > 0) {
            Kernel kernel = kernels.get(ConvProgram.backwardReduce(options, shard.hasTables()));
            long columns = in.channels() * in.sumPlanes();
            launcher.launch(
                    kernel.name(),
                    kernel.function(),
                    (columns + REDUCE_COLUMNS - 1) / REDUCE_COLUMNS,
                    shard.ranges(),
                    REDUCE_COLUMNS,
                    REDUCE_PARTS,
                    0,
                    true);
        }
    }

    void round(Tensor sums) {
        Kernel kernel = kernels.get(
                ConvProgram.backwardRound(sums.dtype() == DType.F64 ? SiluGradPolicy.FP32 : SiluGradPolicy.BF16));
        long columns = sums.columns() * sums.extent(1);
        long blocks = (columns + ROUND_THREADS - 1) / ROUND_THREADS;
        launcher.launch(kernel.name(), kernel.function(), blocks, 1, ROUND_THREADS, 1, 0, false);
    }

    /** A warp per fragment and channel tile. */
    private void launchFragments(Kernel kernel, CudaShard shard, Operands in) {
        launchWarps(kernel, shard.fragments() * ConvProgram.tiles(in.channels()));
    }

    private void launchWarps(Kernel kernel, long warps) {
        long blocks = (warps + ConvProgram.BLOCK_WARPS - 1) / ConvProgram.BLOCK_WARPS;
        launcher.launch(kernel.name(), kernel.function(), blocks, 1, ConvProgram.blockThreads(), 1, 0, false);
    }
}
