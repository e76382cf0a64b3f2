package dev.kcp.nccl;

import dev.kcp.comm.Call;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.CloseStack;
import java.util.ArrayList;
import java.util.List;

/** Captures work with its exchanges, and knows the graphs that are still open: NCCL's communicator ends after all of them. */
final class CapturedGraphs implements AutoCloseable {
    private final CudaStream compute;
    private final CallBook calls;
    private final Transfers transfers;
    private final List<NcclGraph> open = new ArrayList<>();

    CapturedGraphs(CudaStream compute, CallBook calls, Transfers transfers) {
        this.compute = compute;
        this.calls = calls;
        this.transfers = transfers;
    }

    /** Captures, and waits until every rank has said that it captured the same calls. */
    NcclGraph capture(NcclCommunicator owner, String label, Runnable work) {
        calls.beginCapture();
        transfers.beginCapture();
        try {
            CudaGraph graph = CudaGraph.capture(compute, () -> {
                work.run();
                transfers.rejoin();
            });
            List<Call> captured = calls.captured();
            NcclGraph made = new NcclGraph(owner, label, captured, calls.capturedStats(), graph);
            open.add(made);
            calls.agree(
                    "graph",
                    label + " calls=" + captured.size() + " digest=" + Long.toHexString(CallDigest.of(captured)));
            return made;
        } finally {
            transfers.endCapture();
            calls.endCapture();
        }
    }

    /** A graph was closed. */
    void forget(NcclGraph graph) {
        open.remove(graph);
    }

    /** Closes those that are open. */
    @Override
    public void close() {
        CloseStack.closeAll(List.copyOf(open));
    }
}
