package dev.kcp.train.cuda;

import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.CudaStream;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclGraph;

/**
 * Runs a step as it is for the first few times, in which programs are loaded and buffers grow; then records it, and from
 * then on replays the record until the work becomes another.
 */
final class StepGraph implements AutoCloseable {
    private static final int WARM_UP_STEPS = 3;
    private static final String LABEL = "train step";

    private final CudaStream stream;
    private NcclCommunicator group;
    private Object work;
    private int runs;
    private AutoCloseable recorded;
    private Runnable replay;

    StepGraph(CudaStream stream) {
        this.stream = stream;
    }

    /** Steps are recorded, and replayed, together with the other ranks of this group. */
    void joinedBy(NcclCommunicator communicator) {
        group = communicator;
    }

    /** @param same what equals the last step's where the body would call the same programs on the same addresses, or null */
    void run(Object same, Runnable body) {
        if (same == null || !same.equals(work)) {
            close();
            work = same;
        }
        if (replay == null && same != null && runs >= WARM_UP_STEPS) {
            record(body);
        }
        if (replay == null) {
            body.run();
            runs++;
        } else {
            replay.run();
        }
    }

    private void record(Runnable body) {
        if (group == null) {
            CudaGraph graph = CudaGraph.capture(stream, body);
            recorded = graph;
            replay = graph::launch;
        } else {
            NcclGraph graph = group.capture(LABEL, body);
            recorded = graph;
            replay = graph::replay;
        }
    }

    /** Frees the record; nothing of it may be under way. */
    @Override
    public void close() {
        runs = 0;
        work = null;
        replay = null;
        switch (recorded) {
            case CudaGraph graph -> graph.close();
            case NcclGraph graph -> graph.close();
            case null, default -> {}
        }
        recorded = null;
    }
}
