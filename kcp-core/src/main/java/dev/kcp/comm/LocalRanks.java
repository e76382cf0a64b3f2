package dev.kcp.comm;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;

/** Runs one body on every rank of a local group. */
public final class LocalRanks {
    private LocalRanks() {}

    /**
     * Runs the body once per rank, each on a thread of its own, and waits for all. A throw on one rank ends the group;
     * the communicators are closed at the end.
     *
     * @param deadline bound of every wait of the communicators; also how long the other ranks may take to end after the
     *     first has failed, before they are interrupted
     * @return the results in rank order
     * @throws RuntimeException the first failure, as its rank threw it
     */
    public static <T> List<T> run(int ranks, Duration deadline, Function<Communicator, T> body) {
        Objects.requireNonNull(body, "body");
        List<Communicator> group = LocalCommunicator.group(ranks, deadline);
        Object[] results = new Object[ranks];
        AtomicReference<Throwable> first = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (Communicator communicator : group) {
            int rank = communicator.rank();
            threads.add(Thread.ofPlatform().daemon().name("kcp-rank-" + rank).start(() -> {
                try (communicator) {
                    try {
                        results[rank] = body.apply(communicator);
                    } catch (Throwable e) {
                        first.compareAndSet(null, e);
                        communicator.abort(e.toString());
                    }
                }
            }));
        }
        join(threads, deadline, first, group);
        switch (first.get()) {
            case null -> {}
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            case Throwable e -> throw new IllegalStateException(e);
        }
        List<T> inOrder = new ArrayList<>();
        for (Object result : results) {
            @SuppressWarnings("unchecked") // only the body's results are stored
            T typed = (T) result;
            inOrder.add(typed);
        }
        return inOrder;
    }

    private static void join(
            List<Thread> threads, Duration deadline, AtomicReference<Throwable> first, List<Communicator> group) {
        try {
            for (Thread thread : threads) {
                while (first.get() == null && !thread.join(Duration.ofMillis(20))) {}
            }
            Deadline until = Deadline.in(deadline);
            for (Thread thread : threads) {
                if (first.get() != null && !thread.join(Duration.ofNanos(Math.max(0, until.remainingNanos())))) {
                    thread.interrupt();
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            group.forEach(communicator -> communicator.abort("interrupted"));
            threads.forEach(Thread::interrupt);
            throw new IllegalStateException("interrupted while ranks ran", e);
        }
    }
}
