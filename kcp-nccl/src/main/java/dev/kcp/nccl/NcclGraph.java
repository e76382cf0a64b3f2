package dev.kcp.nccl;

import dev.kcp.comm.Call;
import dev.kcp.comm.CommunicatorStats;
import dev.kcp.cuda.CudaGraph;
import java.util.List;

/**
 * Captured work with its exchanges. Every rank replays its graph as often as the others, as a collective call; a context
 * that was given another batch in between makes the replay work on that. Owned by whoever captured it.
 */
public final class NcclGraph implements AutoCloseable {
    private final NcclCommunicator communicator;
    private final CudaGraph graph;
    private final List<Call> calls;
    private final CommunicatorStats perReplay;
    private final Call replay;
    private boolean closed;

    NcclGraph(
            NcclCommunicator communicator,
            String label,
            List<Call> calls,
            CommunicatorStats perReplay,
            CudaGraph graph) {
        this.communicator = communicator;
        this.calls = List.copyOf(calls);
        this.perReplay = perReplay;
        this.graph = graph;
        replay = Call.of(Call.Kind.REPLAY, label);
    }

    /** The exchanges that one replay makes. */
    public List<Call> calls() {
        return calls;
    }

    /**
     * Queues a replay on the compute stream.
     *
     * @throws dev.kcp.KcpException if the group has failed, or ranks gave their contexts different batches
     */
    public void replay() {
        if (closed) {
            throw new IllegalStateException("the graph was closed: graph=" + replay.label());
        }
        communicator.replay(replay, perReplay, graph);
    }

    /** Frees it. Nothing that it captured may be used afterwards. */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            communicator.forget(this);
            graph.close();
        }
    }
}
