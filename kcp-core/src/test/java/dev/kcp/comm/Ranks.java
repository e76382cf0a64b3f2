package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Runs a body on ranks that are threads of this JVM, over either transport, and keeps what each rank ended with. */
final class Ranks {
    /** For groups whose waits should never end by it. */
    static final Duration DEADLINE = Eventually.LIMIT;
    /** Where a wait should end by it, and the other ranks have to make their calls within it. */
    static final Duration SHORT = Duration.ofSeconds(3);

    private static final Duration WATCHDOG = DEADLINE.plusMinutes(1);

    private Ranks() {}

    /** A rank's part of a test. */
    interface Body {
        Object run(Communicator communicator) throws Exception;
    }

    /** Makes a group; over tcp the ranks meet in a store of their own. */
    static List<Communicator> group(String transport, int ranks, Duration deadline) throws Exception {
        if (transport.equals("local")) {
            return LocalCommunicator.group(ranks, deadline);
        }
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "secret")) {
            return join(store, ranks, "world", deadline);
        }
    }

    static List<Communicator> join(StoreServer store, int ranks, String name, Duration deadline) throws Exception {
        Communicator[] joined = new Communicator[ranks];
        List<Object> outcomes = onThreads(ranks, rank -> {
            joined[rank] = TcpCommunicator.join(
                    rankInfo(rank, ranks, store.port(), "job", "secret"), name, DEADLINE, deadline);
            return null;
        });
        assertThat(outcomes).containsOnlyNulls();
        return List.of(joined);
    }

    static RankInfo rankInfo(int rank, int ranks, int storePort, String jobId, String secret) {
        return new RankInfo(rank, rank, ranks, ranks, null, 0, new HostAndPort("127.0.0.1", storePort), jobId, secret);
    }

    /** Runs the body on every rank and closes: a rank's outcome is its result or what it threw. */
    static List<Object> outcomes(String transport, int ranks, Duration deadline, Body body) throws Exception {
        List<Communicator> group = group(transport, ranks, deadline);
        return onThreads(ranks, rank -> {
            try (Communicator communicator = group.get(rank)) {
                return body.run(communicator);
            }
        });
    }

    /** As {@link #outcomes}, where no rank may throw. */
    static List<Object> run(String transport, int ranks, Body body) throws Exception {
        List<Object> outcomes = outcomes(transport, ranks, DEADLINE, body);
        for (Object outcome : outcomes) {
            if (outcome instanceof Throwable e) {
                throw new AssertionError("a rank failed", e);
            }
        }
        return outcomes;
    }

    /** One numbered part of a test. */
    interface Numbered {
        Object run(int rank) throws Exception;
    }

    static List<Object> onThreads(int threads, Numbered body) throws Exception {
        Object[] outcomes = new Object[threads];
        CountDownLatch done = new CountDownLatch(threads);
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int rank = i;
            all.add(Thread.ofPlatform().daemon().name("test-rank-" + rank).start(() -> {
                try {
                    outcomes[rank] = body.run(rank);
                } catch (Throwable e) {
                    outcomes[rank] = e;
                } finally {
                    done.countDown();
                }
            }));
        }
        if (!done.await(WATCHDOG.toSeconds(), TimeUnit.SECONDS)) {
            StringBuilder stacks = new StringBuilder("ranks hang:");
            all.forEach(thread -> stacks.append('\n').append(thread.getName()).append(List.of(thread.getStackTrace())));
            throw new AssertionError(stacks.toString());
        }
        return Arrays.asList(outcomes);
    }

    /** Native memory whose bytes tell sender and place, so that nothing can be mistaken for anything else. */
    static MemorySegment pattern(Arena arena, long bytes, int seed) {
        MemorySegment memory = arena.allocate(Math.max(1, bytes), 8);
        for (long i = 0; i < bytes; i++) {
            memory.set(ValueLayout.JAVA_BYTE, i, patternByte(i, seed));
        }
        return memory;
    }

    static void assertPattern(MemorySegment memory, long bytes, int seed) {
        for (long i = 0; i < bytes; i++) {
            if (memory.get(ValueLayout.JAVA_BYTE, i) != patternByte(i, seed)) {
                throw new AssertionError("wrong byte: at=" + i + " seed=" + seed);
            }
        }
    }

    private static byte patternByte(long at, int seed) {
        return (byte) (at * 31 + (at >> 8) + seed * 101);
    }
}
