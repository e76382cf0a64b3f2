package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.HostAndPort;
import dev.kcp.conv.cuda.CudaDevice;
import dev.kcp.conv.cuda.CudaEvent;
import dev.kcp.conv.cuda.CudaStream;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Ends the group when something goes wrong on the device, and what is on the device when the group ends: late work, NCCL's
 * own errors, rows of another call. Where the deadline passed, what NCCL knows of its processes goes to the log.
 */
final class GroupGuard implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(GroupGuard.class.getName());

    private final Communicator control;
    private final NcclGroup group;
    private final DirectRoute direct;
    private final HeaderedMessages messages;
    private final Duration deadline;
    private final ExchangeWatch watch;
    private final CountDownLatch reported = new CountDownLatch(1);
    private volatile boolean failed;

    /** @param group null in a group of one rank */
    GroupGuard(
            Communicator control,
            NcclGroup group,
            DirectRoute direct,
            HeaderedMessages messages,
            CudaDevice device,
            Duration deadline) {
        this.control = control;
        this.group = group;
        this.direct = direct;
        this.messages = messages;
        this.deadline = deadline;
        watch = new ExchangeWatch(device, deadline, this::look, this::overdue);
        // Elsewhere, since the thread that learns of a failure has more to do.
        control.onFailure(failure -> {
            failed = true;
            Thread.ofPlatform().daemon().name("kcp-nccl-end").start(() -> end(failure));
        });
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
                .or(direct::wrong)
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

    /** An aborted communicator tells NCCL's other processes no more of what it waited for: it is asked before. */
    private void end(KcpException failure) {
        try {
            if (failure.code() == Code.DEADLINE && group != null) {
                NcclRas.address().ifPresent(this::logStatus);
            }
        } finally {
            reported.countDown();
            abortDevice();
        }
    }

    private void logStatus(HostAndPort address) {
        List<String> lines = NcclRas.status(address, NcclRas.PATIENCE);
        if (!lines.isEmpty()) {
            LOG.log(
                    System.Logger.Level.WARNING,
                    "what NCCL knows of its processes: rank=" + rank() + " address=" + address + "\n  "
                            + String.join("\n  ", lines));
        }
    }

    /** Gives the report of a failure the time to be made; a process that ended earlier would take it along. */
    void awaitReport() {
        try {
            if (failed && !reported.await(2 * NcclRas.PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
                LOG.log(System.Logger.Level.DEBUG, "no report of NCCL's: rank=" + rank());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Lets everything queued end, so that streams run dry and memory can be freed. */
    void abortDevice() {
        direct.stop();
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
