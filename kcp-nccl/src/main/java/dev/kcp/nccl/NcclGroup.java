package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.comm.Segment;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.Handles;
import dev.kcp.tensor.CloseStack;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.nccl.ncclComm;

/**
 * One NCCL communicator and the stream that all its work goes to. Calls of the library are made one at a time. Making and
 * ending it wait for other ranks, so they run on a thread of their own and are left behind when the deadline passes; a
 * communicator that NCCL itself calls non-blocking would start a thread for every exchange, ten times the exchange's time.
 * Once all ranks are connected, queueing waits for nobody. Aborted by any thread, once.
 */
final class NcclGroup {
    private static final long POLL_NANOS = 20_000;
    private static final int SPINS = 200;
    private static final long TURN_MILLIS = 20;
    private static final long ABORT_PATIENCE_MILLIS = 500;

    private final CudaDevice device;
    private final CUstream_st stream;
    private final Duration deadline;
    private final Runnable checkAlive;
    private final Handles.Address address = new Handles.Address();
    private final ReentrantLock lock = new ReentrantLock();
    private final ncclComm comm;
    private final int ranks;
    private final AtomicBoolean over = new AtomicBoolean();

    /**
     * Makes it, together with all ranks.
     *
     * @param checkAlive throws if the group of ranks has failed
     */
    NcclGroup(
            int ranks,
            int rank,
            byte[] uniqueId,
            CudaDevice device,
            long stream,
            Duration deadline,
            Runnable checkAlive) {
        this.ranks = ranks;
        this.device = device;
        this.stream = Handles.stream(stream);
        this.deadline = deadline;
        this.checkAlive = checkAlive;
        comm = aside("joining the NCCL communicator", () -> Nccl.init(ranks, uniqueId, rank));
    }

    /** Runs what waits for other ranks on a thread of its own, for no longer than the deadline. */
    private <T> T aside(String what, Supplier<T> body) {
        FutureTask<T> task = new FutureTask<>(() -> {
            device.makeCurrent();
            return body.get();
        });
        Thread.ofPlatform().daemon().name("kcp-nccl-" + what).start(task);
        long end = System.nanoTime() + deadline.toNanos();
        while (true) {
            try {
                return task.get(TURN_MILLIS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException _) {
                checkAlive.run();
                if (System.nanoTime() > end) {
                    throw tookTooLong(what);
                }
            } catch (ExecutionException e) {
                throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while " + what, e);
            }
        }
    }

    private KcpException tookTooLong(String what) {
        return new KcpException(Code.DEADLINE, what + " took too long: deadlineMillis=" + deadline.toMillis());
    }

    /** Polls the device under the deadline; ends at once if another rank has failed. */
    void until(BooleanSupplier done, String what) {
        long end = System.nanoTime() + deadline.toNanos();
        for (int turn = 0; !done.getAsBoolean(); turn++) {
            if (turn < SPINS) {
                Thread.onSpinWait();
                continue;
            }
            checkAlive.run();
            if (System.nanoTime() > end) {
                throw tookTooLong(what);
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /** Queues all messages as one; peers list theirs in the same order. */
    void exchange(List<Segment> sends, List<Segment> receives) {
        grouped(() -> {
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
        });
    }

    /** Sends and receives a few bytes with every peer, so that no later call connects for the first time. */
    void connect(long sent, long received, long bytes, int rank) {
        aside("connecting to every rank", () -> {
            grouped(() -> {
                for (int peer = 0; peer < ranks; peer++) {
                    if (peer != rank) {
                        Nccl.send(address.at(sent + peer * bytes), bytes, peer, comm, stream);
                        Nccl.receive(address.at(received + peer * bytes), bytes, peer, comm, stream);
                    }
                }
            });
            return null;
        });
    }

    void allReduce(long elements, long count, boolean doubles) {
        grouped(() -> Nccl.allReduce(address.at(elements), count, doubles, comm, stream));
    }

    private void grouped(Runnable calls) {
        lock.lock();
        try {
            checkOpen();
            Nccl.groupStart();
            try {
                calls.run();
            } finally {
                Nccl.groupEnd(comm);
            }
        } finally {
            lock.unlock();
        }
    }

    private void checkOpen() {
        if (over.get()) {
            checkAlive.run();
            throw new IllegalStateException("the NCCL communicator was closed");
        }
    }

    /**
     * An error that NCCL found by itself.
     *
     * @throws KcpException with its text
     */
    void checkHealth() {
        // Not while a call is being made: that one sees the error itself.
        if (lock.tryLock()) {
            try {
                if (!over.get()) {
                    Nccl.checkHealth(comm);
                }
            } finally {
                lock.unlock();
            }
        }
    }

    /** Ends it together with all ranks: queued work is done first. */
    void close() {
        lock.lock();
        try {
            if (!over.compareAndSet(false, true)) {
                return;
            }
        } finally {
            lock.unlock();
        }
        try {
            aside("leaving the NCCL communicator", () -> {
                Nccl.end(comm);
                return null;
            });
        } catch (RuntimeException | Error e) {
            CloseStack abort = new CloseStack();
            abort.push(() -> Nccl.abort(comm));
            abort.closeAfter(e);
            throw e;
        }
    }

    /**
     * Stops its kernels and frees it, whatever the others do. The kernels stop at once; it returns when every graph that
     * captured its calls was closed.
     */
    void abort() {
        boolean first;
        boolean locked = false;
        try {
            // A call that hangs inside the library holds the lock, and is what the abort is to end.
            locked = lock.tryLock(ABORT_PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
        } finally {
            first = over.compareAndSet(false, true);
            if (locked) {
                lock.unlock();
            }
        }
        // Not under the lock: whoever is to close a graph may come to it first, and be told that it is over.
        if (first) {
            device.makeCurrent();
            Nccl.abort(comm);
        }
    }
}
