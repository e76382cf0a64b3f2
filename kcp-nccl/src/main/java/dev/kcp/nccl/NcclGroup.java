package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.comm.Segment;
import dev.kcp.nccl.Nccl.Address;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.bytedeco.cuda.nccl.ncclComm;

/**
 * One NCCL communicator and the stream that all its work goes to. Calls of the library are made one at a time and none
 * blocks; what is "in progress" is polled under the deadline. Aborted by any thread, once.
 */
final class NcclGroup {
    private static final long POLL_NANOS = 20_000;
    private static final long SPINS = 200;

    private final Nccl.Stream stream;
    private final Duration deadline;
    private final Runnable checkAlive;
    private final Address address = new Address();
    private final ncclComm comm;
    private final int ranks;
    private boolean over;

    /**
     * Starts to make it; {@link #awaitReady} waits for the others.
     *
     * @param checkAlive throws if the group of ranks has failed
     */
    NcclGroup(int ranks, int rank, byte[] uniqueId, long stream, Duration deadline, Runnable checkAlive) {
        this.ranks = ranks;
        this.stream = new Nccl.Stream(stream);
        this.deadline = deadline;
        this.checkAlive = checkAlive;
        comm = Nccl.init(ranks, uniqueId, rank);
    }

    /** Waits until what was started is done. */
    void awaitReady(String what) {
        until(() -> isReady(), what);
    }

    private synchronized boolean isReady() {
        if (over) {
            checkAlive.run();
            throw new KcpException(Code.RANK_FAILED, "the NCCL communicator was aborted");
        }
        return Nccl.isReady(comm);
    }

    /** Polls under the deadline; ends at once if another rank has failed. */
    void until(BooleanSupplier done, String what) {
        long end = System.nanoTime() + deadline.toNanos();
        for (long turn = 0; !done.getAsBoolean(); turn++) {
            if (turn < SPINS) {
                Thread.onSpinWait();
                continue;
            }
            checkAlive.run();
            if (System.nanoTime() > end) {
                throw new KcpException(Code.DEADLINE, what + " took too long: deadlineMillis=" + deadline.toMillis());
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /** Queues all messages as one; peers list theirs in the same order. */
    void exchange(List<Segment> sends, List<Segment> receives) {
        synchronized (this) {
            checkOpen();
            Nccl.groupStart();
            try {
                for (Segment send : sends) {
                    if (send.bytes() > 0) {
                        Nccl.send(address.at(send.address()), send.bytes(), send.peer(), comm, stream);
                    }
                }
                for (Segment receive : receives) {
                    if (receive.bytes() > 0) {
                        Nccl.receive(address.at(receive.address()), receive.bytes(), receive.peer(), comm, stream);
                    }
                }
            } finally {
                Nccl.groupEnd(comm);
            }
        }
        awaitReady("queueing an exchange");
    }

    /** Sends and receives a few bytes with every peer, so that no later call connects for the first time. */
    void connect(long sent, long received, long bytes, int rank) {
        synchronized (this) {
            checkOpen();
            Nccl.groupStart();
            try {
                for (int peer = 0; peer < ranks; peer++) {
                    if (peer != rank) {
                        Nccl.send(address.at(sent + peer * bytes), bytes, peer, comm, stream);
                        Nccl.receive(address.at(received + peer * bytes), bytes, peer, comm, stream);
                    }
                }
            } finally {
                Nccl.groupEnd(comm);
            }
        }
        awaitReady("connecting to every rank");
    }

    void allReduce(long elements, long count, boolean doubles) {
        synchronized (this) {
            checkOpen();
            Nccl.groupStart();
            try {
                Nccl.allReduce(address.at(elements), count, doubles, comm, stream);
            } finally {
                Nccl.groupEnd(comm);
            }
        }
        awaitReady("queueing an all-reduce");
    }

    private void checkOpen() {
        if (over) {
            checkAlive.run();
            throw new IllegalStateException("the NCCL communicator was closed");
        }
    }

    /**
     * An error that NCCL found by itself.
     *
     * @throws KcpException with its text
     */
    synchronized void checkHealth() {
        if (!over) {
            Nccl.isReady(comm);
        }
    }

    /** Ends it together with all ranks: queued work is done first. */
    void close() {
        synchronized (this) {
            if (over) {
                return;
            }
            Nccl.startFinalize(comm);
        }
        awaitReady("finalizing");
        synchronized (this) {
            if (!over) {
                over = true;
                Nccl.destroy(comm);
            }
        }
    }

    /** Stops its kernels and frees it, whatever the others do. */
    synchronized void abort() {
        if (!over) {
            over = true;
            Nccl.abort(comm);
        }
    }
}
