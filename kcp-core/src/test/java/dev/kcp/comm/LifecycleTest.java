package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.KcpException;
import dev.kcp.conv.Eventually;
import dev.kcp.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How groups begin and end; numbers are those of the reports from users of related software. */
class LifecycleTest {
    /** Far below the deadline of a group, which an end that waited for others would take. */
    private static final long SHORT_MILLIS = Ranks.DEADLINE.toMillis() / 2;

    private static long millisOf(Runnable body) {
        long begin = System.nanoTime();
        body.run();
        return Duration.ofNanos(System.nanoTime() - begin).toMillis();
    }

    /** Case 54: both ends send before they receive, a thousand times, in both directions. */
    @ParameterizedTest
    @CsvSource({"local,2", "local,3", "local,4", "tcp,2", "tcp,3", "tcp,4"})
    void case54EveryRankSendsBothWaysAtOnce(String transport, int ranks) throws Exception {
        Ranks.run(transport, ranks, c -> {
            try (Arena arena = Arena.ofShared()) {
                MemorySegment mine = Ranks.pattern(arena, 24, c.rank());
                MemorySegment left = arena.allocate(24);
                MemorySegment right = arena.allocate(24);
                int next = (c.rank() + 1) % ranks;
                int previous = (c.rank() + ranks - 1) % ranks;
                for (int step = 0; step < 1000; step++) {
                    Call.Kind kind = step % 2 == 0 ? Call.Kind.HALO_FORWARD : Call.Kind.HALO_BACKWARD;
                    c.exchange(
                                    new Call(kind, "layer0", 4, DType.BF16, 1),
                                    List.of(
                                            new Segment(next, mine.address(), 24),
                                            new Segment(previous, mine.address(), 24)),
                                    List.of(
                                            new Segment(previous, left.address(), 24),
                                            new Segment(next, right.address(), 24)))
                            .await();
                }
                Ranks.assertPattern(left, 24, previous);
                Ranks.assertPattern(right, 24, next);
            }
            return null;
        });
    }

    /** Case 71: all ranks fail at once, and closing is short. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void case71AllFailAtOnceAndClose(String transport) throws Exception {
        CountDownLatch together = new CountDownLatch(4);
        List<Communicator> group = Ranks.group(transport, 4, Ranks.DEADLINE);
        List<Object> millis = Ranks.onThreads(4, rank -> {
            together.countDown();
            together.await();
            group.get(rank).abort("thrown on rank " + rank);
            return millisOf(group.get(rank)::close);
        });
        assertThat(millis).allSatisfy(time -> assertThat((Long) time).isLessThan(SHORT_MILLIS));
    }

    /** Case 72: of two groups of the same ranks the younger is ended first; neither waits for the other. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void case72TheYoungerOfTwoGroupsIsEndedFirst(String transport) throws Exception {
        // Not a barrier of the group: the first rank past that could end it before the other has left it.
        CountDownLatch split = new CountDownLatch(2);
        Ranks.run(transport, 2, older -> {
            Communicator younger = older.split(0, older.rank());
            split.countDown();
            split.await();
            long millis = millisOf(() -> {
                younger.abort("enough");
                younger.close();
                older.close();
            });
            assertThat(millis).as("milliseconds to end both").isLessThan(SHORT_MILLIS);
            return null;
        });
    }

    /** Case 74: the others have gone, in order or not; closing waits for none of them. */
    @ParameterizedTest
    @CsvSource({"local,true", "tcp,true", "local,false", "tcp,false"})
    void case74ClosingAfterTheOthersHaveGone(String transport, boolean orderly) throws Exception {
        CountDownLatch gone = new CountDownLatch(2);
        List<Communicator> group = Ranks.group(transport, 3, Ranks.DEADLINE);
        List<Object> millis = Ranks.onThreads(3, rank -> {
            Communicator c = group.get(rank);
            if (rank > 0) {
                if (!orderly) {
                    c.abort("left in anger");
                }
                long time = rank == 1 ? millisOf(c::close) : 0;
                gone.countDown();
                if (rank == 2) {
                    c.close();
                }
                return time;
            }
            gone.await();
            return millisOf(c::close);
        });
        assertThat((Long) millis.getFirst()).isLessThan(SHORT_MILLIS);
    }

    /** Case 70: a rank that sleeps is named with the label and the step, by all that wait. */
    @Test
    void case70TheSleeperIsNamedWithLayerAndStep() throws Exception {
        CountDownLatch over = new CountDownLatch(3);
        CountDownLatch together = new CountDownLatch(4);
        List<Object> outcomes = Ranks.outcomes("tcp", 4, Ranks.SHORT, c -> {
            together.countDown();
            together.await();
            if (c.rank() == 3) {
                over.await();
            }
            try {
                c.barrier("step 12 layer 5");
            } finally {
                over.countDown();
            }
            return null;
        });
        for (Object outcome : outcomes) {
            assertThat(((KcpException) outcome).getMessage()).contains("step 12 layer 5", "awaitedRanks=[3]");
        }
    }

    /** Case 76: groups of processes come and go without leaving threads or files. */
    @Test
    void case76TcpGroupsLeaveNothingBehind() throws Exception {
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "secret")) {
            for (int i = 0; i < 5; i++) {
                openAndClose(store, "warm " + i);
            }
            long files = OpenFiles.count();
            int threads = Thread.activeCount();
            for (int i = 0; i < 40; i++) {
                openAndClose(store, "group " + i);
            }
            Eventually.atMost("open files", files + 4, OpenFiles::count);
            Eventually.atMost("threads", threads + 2, Thread::activeCount);
        }
    }

    private static void openAndClose(StoreServer store, String name) throws Exception {
        List<Communicator> group = Ranks.join(store, 2, name, Ranks.DEADLINE);
        Ranks.onThreads(2, rank -> {
            try (Communicator c = group.get(rank);
                    Communicator half = c.split(0, rank)) {
                half.barrier("b");
            }
            return null;
        });
    }
}
