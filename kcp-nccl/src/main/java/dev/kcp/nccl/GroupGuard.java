package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.comm.Communicator;
import dev.kcp.conv.cuda.CudaDevice;
import dev.kcp.conv.cuda.CudaEvent;
import dev.kcp.conv.cuda.CudaStream;
import java.time.Duration;

/**
 * Ends the group when something goes wrong on the device, and what is on the device when the group ends: late work, NCCL's
 * own errors, rows of another call.
 */
final class GroupGuard implements AutoCloseable {
    private final Communicator control;
    private final NcclGroup group;
    private final HeaderedMessages messages;
    private final Duration deadline;
    private final ExchangeWatch watch;

    /** @param group null in a group of one rank */
    GroupGuard(Communicator control, NcclGroup group, HeaderedMessages messages, CudaDevice device, Duration deadline) {
        this.control = control;
        this.group = group;
        this.messages = messages;
        this.deadline = deadline;
        watch = new ExchangeWatch(device, deadline, this::look, this::overdue);
        // Elsewhere, since the thread that learns of a failure has more to do.
        control.onFailure(failure -> Thread.ofPlatform().daemon().start(this::abortDevice));
    }

    /** What the watch looks for beside late work. */
    private void look() {
        try {
            if (group != null) {
                group.checkHealth();
            }
            checkHeaders();
        } catch (KcpException e) {
            control.abort(e.code(), "rank " + control.worldRank() + ": " + e.getMessage());
        }
    }

    /** Ends the group if rows came that were not those of the call. */
    void checkHeaders() {
        messages.wrong()
                .ifPresent(what ->
                        control.abort(Code.DISAGREEMENT, "rank " + control.worldRank() + " got stray rows: " + what));
    }

    private void overdue(Object what) {
        control.abort(
                Code.DEADLINE,
                "rank " + control.worldRank() + " has work on its GPU that does not end: work=" + what
                        + " deadlineMillis=" + deadline.toMillis());
    }

    /** Marks the end of what is on the stream now; it must be reached within the deadline. */
    CudaEvent mark(CudaStream stream, Object what) {
        return watch.mark(stream, what);
    }

    /**
     * The host's wait for everything on a stream.
     *
     * @throws KcpException if the group failed, or the deadline passed
     */
    void synchronize(CudaStream stream) {
        try (CudaEvent end = CudaEvent.untimed(stream.device())) {
            end.record(stream);
            if (group == null) {
                stream.synchronize();
                return;
            }
            try {
                group.until(end::isReached, "work on the GPU");
            } catch (KcpException e) {
                control.abort(e.code(), "rank " + control.worldRank() + ": " + e.getMessage());
                control.checkAlive();
                throw e;
            }
        }
    }

    /** Number in the job, for texts. */
    int rank() {
        return control.worldRank();
    }

    boolean isAlive() {
        try {
            control.checkAlive();
            return true;
        } catch (KcpException _) {
            return false;
        }
    }

    /** Lets everything queued end, so that streams run dry and memory can be freed. */
    void abortDevice() {
        if (group != null) {
            group.abort();
        }
    }

    /** Ends the watch. */
    @Override
    public void close() {
        watch.close();
    }
}
