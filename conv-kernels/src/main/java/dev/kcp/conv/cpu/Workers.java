package dev.kcp.conv.cpu;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/** A fixed number of threads, the caller's among them, that share the tasks of one program. */
final class Workers implements AutoCloseable {
    /** One task of a program. */
    interface Task {
        /**
         * @param worker the thread's number, from 0; at most one task runs under a number at a time
         * @param task the task's number
         */
        void run(int worker, int task);
    }

    private final int threads;
    private final ExecutorService pool;

    Workers(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("no thread to work: threads=" + threads);
        }
        this.threads = threads;
        this.pool = threads == 1
                ? null
                : Executors.newFixedThreadPool(
                        threads - 1,
                        Thread.ofPlatform().daemon().name("kcp-cpu-", 1).factory());
    }

    int threads() {
        return threads;
    }

    void run(int tasks, Task body) {
        AtomicInteger next = new AtomicInteger();
        List<Future<?>> others = new ArrayList<>();
        for (int worker = 1; worker < Math.min(threads, tasks); worker++) {
            int number = worker;
            others.add(pool.submit(() -> drain(number, tasks, next, body)));
        }
        RuntimeException failure = null;
        try {
            drain(0, tasks, next, body);
        } catch (RuntimeException e) {
            failure = e;
        }
        for (Future<?> other : others) {
            try {
                other.get();
            } catch (ExecutionException e) {
                failure = failure == null ? new IllegalStateException("a worker failed", e.getCause()) : failure;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                next.set(tasks);
                failure = failure == null ? new IllegalStateException("interrupted while computing", e) : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    private static void drain(int worker, int tasks, AtomicInteger next, Task body) {
        for (int task = next.getAndIncrement(); task < tasks; task = next.getAndIncrement()) {
            body.run(worker, task);
        }
    }

    @Override
    public void close() {
        if (pool != null) {
            pool.shutdownNow();
        }
    }
}
