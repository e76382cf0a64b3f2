package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.HostAndPort;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaStream;
import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;

/**
 * Ends the group when something goes wrong on the device, and what is on the device when the group ends: late work, NCCL's
 * own errors, rows of another call. Where the deadline passed, what NCCL knows of its processes goes to the log.
 */
final class GroupGuard implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(GroupGuard.class.getName());
    private static final Duration END_PATIENCE = NcclRas.PATIENCE.plusSeconds(5);

    private final Communicator control;
    private final NcclGroup group;
    private final DirectRoute direct;
    private final HeaderedMessages messages;
    private final Duration deadline;
    private final Supplier<List<Integer>> lateRanks;
    private final ExchangeWatch watch;
    private volatile Thread ending;

    /**
     * @param group null in a group of one rank
     * @param lateRanks ranks that have not made this rank's latest call
     */
    GroupGuard(
            Communicator control,
            NcclGroup group,
            DirectRoute direct,
            HeaderedMessages messages,
            CudaDevice device,
            Duration deadline,
            Supplier<List<Integer>> lateRanks) {
        this.control = control;
        this.group = group;
        this.direct = direct;
        this.messages = messages;
        this.deadline = deadline;
        this.lateRanks = lateRanks;
        watch = new ExchangeWatch(device, deadline, this::look, this::overdue);
        control.onFailure(this::startEnd);
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
                "rank " + control.worldRank() + " has work on its GPU that does not end: work=" + what + silent()
                        + " deadlineMillis=" + deadline.toMillis());
    }

    /** Whom the work may wait for, since they have not come to it; nothing where all have. */
    private String silent() {
        List<Integer> late = lateRanks.get();
        return late.isEmpty() ? "" : " silentRanks=" + late;
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
                String whom = e.code() == Code.DEADLINE ? silent() : "";
                control.abort(e.code(), "rank " + control.worldRank() + ": " + e.getMessage() + whom);
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

    /**
     * Ends it on a thread of its own: the one that learns of a failure has more to do, and NCCL's abort returns only when
     * every graph that captured its calls was closed, which is for the thread that uses the communicator to do.
     */
    private void startEnd(KcpException failure) {
        Thread thread = Thread.ofPlatform().daemon().name("kcp-nccl-end").unstarted(() -> end(failure));
        ending = thread;
        thread.start();
    }

    private void end(KcpException failure) {
        try {
            // Before the abort, after which this process tells NCCL's others no more of what it waited for.
            if (failure.code() == Code.DEADLINE && group != null) {
                NcclRas.address().ifPresent(this::logStatus);
            }
        } finally {
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

    /** Lets everything queued end, so that streams run dry and memory can be freed. */
    private void abortDevice() {
        direct.stop();
        if (group != null) {
            group.abort();
        }
    }

    /**
     * Ends the watch and, where that was not done, what is on the device. Graphs were closed before. Of a failed group's end
     * no more than a few seconds are waited for.
     */
    @Override
    public void close() {
        Thread thread = ending;
        try {
            if (thread == null) {
                abortDevice();
            } else if (!thread.join(END_PATIENCE)) {
                LOG.log(System.Logger.Level.WARNING, "NCCL's communicator does not end: rank=" + rank());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        watch.close();
    }
}
