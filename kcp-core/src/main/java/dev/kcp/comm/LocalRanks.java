package dev.kcp.comm;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
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
     * @throws RuntimeException the failure that ended the group, as its rank threw it
     */
    public static <T> List<T> run(int ranks, Duration deadline, Function<Communicator, T> body) {
        Objects.requireNonNull(body, "body");
        List<GroupCommunicator> group = LocalCommunicator.ends(ranks, deadline);
        Object[] results = new Object[ranks];
        AtomicReferenceArray<Throwable> thrown = new AtomicReferenceArray<>(ranks);
        AtomicReference<Throwable> first = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (GroupCommunicator communicator : group) {
            int rank = communicator.rank();
            threads.add(Thread.ofPlatform().daemon().name("kcp-rank-" + rank).start(() -> {
                try (communicator) {
                    try {
                        results[rank] = body.apply(communicator);
                    } catch (Throwable e) {
                        thrown.set(rank, e);
                        first.compareAndSet(null, e);
                        communicator.abort(e.toString());
                    }
                }
            }));
        }
        join(threads, deadline, first, group);
        switch (cause(group, thrown, first.get())) {
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

    /** What the rank threw whose failure ended the group: others, told by it, may have thrown before. */
    private static Throwable cause(
            List<GroupCommunicator> group, AtomicReferenceArray<Throwable> thrown, Throwable first) {
        return group.stream()
                .map(GroupCommunicator::failure)
                .filter(Objects::nonNull)
                .min(Failure.ROOT_CAUSE_FIRST)
                .map(failure -> thrown.get(failure.origin()))
                .orElse(first);
    }

    private static void join(
            List<Thread> threads, Duration deadline, AtomicReference<Throwable> first, List<GroupCommunicator> group) {
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
