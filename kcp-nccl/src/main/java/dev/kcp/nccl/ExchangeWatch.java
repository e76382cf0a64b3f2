package dev.kcp.nccl;

import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.CloseStack;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * Watches, beside the calls, that what was queued on the device gets done: on a GPU no host thread waits for an exchange, so
 * nobody else would notice one that never ends. Events are used again once they were reached.
 */
final class ExchangeWatch implements AutoCloseable {
    private static final long TURN_NANOS = 5_000_000;

    /** Something queued: done once the event is reached. */
    private record Queued(CudaEvent event, Object what, long sinceNanos) {}

    private final CudaDevice device;
    private final Duration deadline;
    private final Runnable everyTurn;
    private final Consumer<Object> overdue;
    private final Deque<Queued> queued = new ArrayDeque<>();
    private final Deque<CudaEvent> free = new ArrayDeque<>();
    private final Thread thread;
    private long progressNanos;
    private volatile boolean closed;

    /**
     * @param everyTurn looks for other trouble, every few milliseconds
     * @param overdue is told what is not done within the deadline of its turn
     */
    ExchangeWatch(CudaDevice device, Duration deadline, Runnable everyTurn, Consumer<Object> overdue) {
        this.device = device;
        this.deadline = deadline;
        this.everyTurn = everyTurn;
        this.overdue = overdue;
        thread = Thread.ofPlatform().daemon().name("kcp-nccl-watch").start(this::watch);
    }

    /** Marks the end of what is on the stream now; to be reached within the deadline after what was queued before it. */
    CudaEvent mark(CudaStream stream, Object what) {
        CudaEvent event;
        synchronized (this) {
            event = free.isEmpty() ? null : free.pop();
        }
        if (event == null) {
            event = CudaEvent.untimed(device);
        }
        event.record(stream);
        synchronized (this) {
            queued.addLast(new Queued(event, what, System.nanoTime()));
        }
        return event;
    }

    private void watch() {
        device.makeCurrent();
        while (!closed) {
            LockSupport.parkNanos(TURN_NANOS);
            everyTurn.run();
            Object late = turn();
            if (late != null) {
                overdue.accept(late);
            }
        }
    }

    /** Drops what is done; gives what is late. */
    private synchronized Object turn() {
        long now = System.nanoTime();
        while (!closed && !queued.isEmpty()) {
            Queued first = queued.peekFirst();
            if (!first.event().isReached()) {
                long since = Math.max(first.sinceNanos(), progressNanos);
                return now - since > deadline.toNanos() ? first.what() : null;
            }
            progressNanos = now;
            queued.removeFirst();
            free.push(first.event());
        }
        return null;
    }

    /** Ends the thread; events are freed, reached or not. */
    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(thread);
        boolean interrupted = false;
        while (thread.isAlive() && thread != Thread.currentThread()) {
            try {
                thread.join();
            } catch (InterruptedException _) {
                interrupted = true;
            }
        }
        synchronized (this) {
            try (CloseStack owned = new CloseStack()) {
                free.forEach(owned::push);
                queued.forEach(one -> owned.push(one.event()));
            } finally {
                queued.clear();
                free.clear();
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
