package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.tensor.CloseStack;
import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;
import jcuda.driver.JCudaDriver;
import org.bytedeco.cuda.global.cudart;

/**
 * Recorded launches, replayed with the same addresses; what stands at the addresses, document offsets among it, may change
 * between replays. Everything that the launches use must outlive the graph. Owned by whoever captured it.
 */
public final class CudaGraph implements AutoCloseable {
    private static final int THREAD_LOCAL = 1;

    private final CudaStream stream;
    private final CUgraph graph = new CUgraph();
    private final CUgraphExec executable = new CUgraphExec();
    private final GraphMemory memory;
    private boolean closed;

    private CudaGraph(CudaStream stream) {
        this.stream = stream;
        memory = new GraphMemory(stream.device());
    }

    /**
     * Records what {@code work} launches on the stream, and on streams that wait for it, without running it. What it
     * allocates belongs to the graph and is freed with it, whatever the work does.
     *
     * @param work must neither wait nor load a program: engines load theirs beforehand
     */
    public static CudaGraph capture(CudaStream stream, Runnable work) {
        CudaGraph made = new CudaGraph(stream);
        stream.device().makeCurrent();
        check("cuStreamBeginCapture", JCudaDriver.cuStreamBeginCapture(stream.jcuda(), THREAD_LOCAL));
        stream.recordInto(made.memory);
        try {
            work.run();
        } catch (RuntimeException | Error e) {
            // The capture is spoilt; ending it gives the stream back.
            JCudaDriver.cuStreamEndCapture(stream.jcuda(), made.graph);
            made.memory.close();
            throw e;
        } finally {
            stream.recordInto(null);
        }
        check("cuStreamEndCapture", JCudaDriver.cuStreamEndCapture(stream.jcuda(), made.graph));
        // Launches keep the priorities of the streams they were recorded on; else what goes beside a long program would
        // wait
        // until all its blocks have begun.
        check(
                "cuGraphInstantiate",
                JCudaDriver.cuGraphInstantiate(
                        made.executable, made.graph, cudart.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
        return made;
    }

    /** Replays the launches on the stream they were recorded on. */
    public void launch() {
        stream.device().makeCurrent();
        check("cuGraphLaunch", JCudaDriver.cuGraphLaunch(executable, stream.jcuda()));
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            stream.device().makeCurrent();
            CloseStack.closeAll(
                    memory,
                    () -> check("cuGraphDestroy", JCudaDriver.cuGraphDestroy(graph)),
                    () -> check("cuGraphExecDestroy", JCudaDriver.cuGraphExecDestroy(executable)));
        }
    }
}
