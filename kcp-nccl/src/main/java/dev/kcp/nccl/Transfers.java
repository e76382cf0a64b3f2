package dev.kcp.nccl;

import dev.kcp.comm.Call;
import dev.kcp.comm.Segment;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.CloseStack;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;

/**
 * Queues exchanges and sums on a stream of their own, behind what the compute stream has so far. Their ends are watched, or,
 * while a graph is captured, part of the graph.
 */
final class Transfers implements AutoCloseable {
    private static final Duration DRAIN = Duration.ofSeconds(5);
    private static final long POLL_NANOS = 100_000;
    private static final System.Logger LOG = System.getLogger(Transfers.class.getName());

    private final CudaStream compute;
    private final CudaStream stream;
    private final NcclGroup group;
    private final DirectRoute direct;
    private final HeaderedMessages messages;
    private final GroupGuard guard;
    private final CudaEvent ready;
    private final CudaEvent captured;
    private boolean capturing;
    private boolean anyCaptured;
    private boolean othersAreDone;

    /**
     * @param stream closed with this, as are the direct route and the messages, whose headers it carries
     * @param group null in a group of one rank
     */
    Transfers(
            CudaStream compute,
            CudaStream stream,
            NcclGroup group,
            DirectRoute direct,
            HeaderedMessages messages,
            GroupGuard guard) {
        this.compute = compute;
        this.stream = stream;
        this.group = group;
        this.direct = direct;
        this.messages = messages;
        this.guard = guard;
        ready = CudaEvent.untimed(compute.device());
        captured = CudaEvent.untimed(compute.device());
    }

    /** Exchanges a few bytes with every rank, so that no later exchange connects, and counts messages from here. */
    void connect(int rank) {
        MessageHeaders headers = messages.headers();
        group.connect(headers.outgoing(0), headers.incoming(0), MessageHeaders.BYTES, rank);
        direct.connect(headers.outgoing(0), headers.incoming(0), MessageHeaders.BYTES);
        headers.reset();
        synchronize();
    }

    /**
     * Queues one exchange, and behind it the work that needs what came.
     *
     * @param behind as {@link dev.kcp.comm.Communicator#exchange(Call, LongConsumer, List, List)} has it; may be null
     * @return reached when all is done
     */
    CudaEvent exchange(Call call, LongConsumer behind, List<Segment> sends, List<Segment> receives) {
        waitForCompute();
        DirectRoute.Parts outgoing = direct.part(sends);
        DirectRoute.Parts incoming = direct.part(receives);
        direct.exchange(outgoing.direct(), incoming.direct(), CallDigest.of(call));
        HeaderedMessages.Messages rest = messages.next(outgoing.collective(), incoming.collective());
        if (!rest.isEmpty()) {
            group.exchange(rest.sends(), rest.receives());
        }
        if (behind != null) {
            behind.accept(stream.handle());
        }
        CudaEvent done = markDone(call);
        messages.check(rest, call);
        return done;
    }

    /** Queues a sum over all ranks, in place; the compute stream waits for it. */
    void allReduce(Call call, long address, long elements, boolean doubles) {
        waitForCompute();
        group.allReduce(address, elements, doubles);
        markDone(call).holdBack(compute);
    }

    private void waitForCompute() {
        ready.record(compute);
        ready.holdBack(stream);
    }

    private CudaEvent markDone(Call call) {
        if (!capturing) {
            return guard.mark(stream, call);
        }
        anyCaptured = true;
        captured.record(stream);
        return captured;
    }

    void beginCapture() {
        capturing = true;
        anyCaptured = false;
        messages.beginCapture();
    }

    /** The end of a captured body: all that was queued beside the compute stream must have come back to it. */
    void rejoin() {
        if (anyCaptured) {
            captured.record(stream);
            captured.holdBack(compute);
        }
    }

    void endCapture() {
        messages.endCapture();
        capturing = false;
    }

    /** The host's wait for everything queued here, under the deadline. */
    void synchronize() {
        guard.synchronize(stream);
    }

    /** Says that no rank sends any more: memory that others write into may be freed. */
    void othersAreDone() {
        othersAreDone = true;
    }

    /** Frees the stream once it ran dry. What a broken device still holds is better left than waited for. */
    @Override
    public void close() {
        if (!isDrained()) {
            LOG.log(System.Logger.Level.WARNING, "transfers did not end: rank=" + guard.rank());
            return;
        }
        try (CloseStack owned = new CloseStack()) {
            owned.push(stream);
            owned.push(captured);
            owned.push(ready);
            owned.push(messages);
            owned.push(() -> direct.close(othersAreDone));
        }
    }

    private boolean isDrained() {
        try (CudaEvent end = CudaEvent.untimed(compute.device())) {
            end.record(stream);
            long until = System.nanoTime() + DRAIN.toNanos();
            while (!end.isReached()) {
                if (System.nanoTime() > until) {
                    return false;
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
            return true;
        }
    }
}
