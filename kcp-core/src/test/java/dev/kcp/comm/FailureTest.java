package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.conv.Eventually;
import dev.kcp.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class FailureTest {
    private static final long BYTES = 48;

    private static Call call(String label, long channels, DType dtype, long plan) {
        return new Call(Call.Kind.HALO_FORWARD, label, channels, dtype, plan);
    }

    private static final Call USUAL = call("layer1", 256, DType.BF16, 0xabc);

    /** All ranks must have thrown the same text. */
    private static String sameFailure(List<Object> outcomes, Code code) {
        for (Object outcome : outcomes) {
            assertThat(outcome).isInstanceOf(KcpException.class);
            KcpException e = (KcpException) outcome;
            assertThat(e.code()).as(e.getMessage()).isEqualTo(code);
            assertThat(e.getMessage()).isEqualTo(((KcpException) outcomes.getFirst()).getMessage());
        }
        return ((KcpException) outcomes.getFirst()).getMessage();
    }

    /** Rows go from each rank to the next, as from shard to shard. */
    private static void passOn(Communicator c, Call call, long sendBytes, long receiveBytes) {
        try (Arena arena = Arena.ofShared()) {
            MemorySegment mine = Ranks.pattern(arena, sendBytes, c.rank());
            MemorySegment room = arena.allocate(receiveBytes + 1);
            boolean first = c.rank() == 0;
            boolean last = c.rank() == c.size() - 1;
            c.exchange(
                            call,
                            last ? List.of() : List.of(new Segment(c.rank() + 1, mine.address(), sendBytes)),
                            first ? List.of() : List.of(new Segment(c.rank() - 1, room.address(), receiveBytes)))
                    .await();
            if (!first) {
                Ranks.assertPattern(room, receiveBytes, c.rank() - 1);
            }
        }
    }

    private static List<Object> disagree(String transport, int ranks, int odd, Call oddCall) throws Exception {
        return Ranks.outcomes(transport, ranks, Ranks.DEADLINE, c -> {
            passOn(c, USUAL, BYTES, BYTES);
            passOn(c, c.rank() == odd ? oddCall : USUAL, BYTES, BYTES);
            c.barrier("after");
            c.barrier("long after");
            return null;
        });
    }

    @ParameterizedTest
    @CsvSource({"local,2,0", "local,2,1", "local,4,3", "tcp,2,0", "tcp,2,1", "tcp,4,3"})
    void anotherChannelCount(String transport, int ranks, int odd) throws Exception {
        String text =
                sameFailure(disagree(transport, ranks, odd, call("layer1", 264, DType.BF16, 0xabc)), Code.DISAGREEMENT);
        assertThat(text).contains("call 1", "channels=256", "channels=264", "rank " + odd + " expected HALO_FORWARD");
    }

    @ParameterizedTest
    @CsvSource({"local,3,1", "tcp,3,1"})
    void anotherType(String transport, int ranks, int odd) throws Exception {
        String text =
                sameFailure(disagree(transport, ranks, odd, call("layer1", 256, DType.F32, 0xabc)), Code.DISAGREEMENT);
        assertThat(text).contains("call 1", "dtype=BF16", "dtype=F32");
    }

    @ParameterizedTest
    @CsvSource({"local,3,2", "tcp,3,2"})
    void anotherPlan(String transport, int ranks, int odd) throws Exception {
        String text =
                sameFailure(disagree(transport, ranks, odd, call("layer1", 256, DType.BF16, 0xdef)), Code.DISAGREEMENT);
        assertThat(text).contains("call 1", "plan=abc", "plan=def");
    }

    @ParameterizedTest
    @CsvSource({"local,2", "local,5", "tcp,2", "tcp,5"})
    void swappedOrderNamesBothLabels(String transport, int ranks) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, ranks, Ranks.DEADLINE, c -> {
            String[] order = c.rank() == 1 ? new String[] {"layer2", "layer1"} : new String[] {"layer1", "layer2"};
            for (String label : order) {
                passOn(c, call(label, 256, DType.BF16, 1), BYTES, BYTES);
            }
            c.barrier("after");
            return null;
        });
        assertThat(sameFailure(outcomes, Code.DISAGREEMENT)).contains("call 0", "\"layer1\"", "\"layer2\"", "rank 1");
    }

    /** Rank 0 and rank 3 share no edge, so only the records can tell. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aDifferenceBetweenRanksWithoutAnEdge(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 4, Ranks.DEADLINE, c -> {
            c.exchange(c.rank() == 3 ? call("other", 8, null, 0) : call("this", 8, null, 0), List.of(), List.of())
                    .await();
            c.barrier("after");
            return null;
        });
        assertThat(sameFailure(outcomes, Code.DISAGREEMENT)).contains("\"other\"", "\"this\"", "rank 3");
    }

    @ParameterizedTest
    @CsvSource({
        "local,48,96",
        "local,96,48",
        "tcp,48,96",
        "tcp,96,48",
        "local,0,48",
        "tcp,0,48",
        "local,48,0",
        "tcp,48,0"
    })
    void anotherByteCount(String transport, long sent, long expected) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 2, Ranks.DEADLINE, c -> {
            passOn(c, USUAL, sent, expected);
            c.barrier("after");
            return null;
        });
        assertThat(sameFailure(outcomes, Code.DISAGREEMENT))
                .contains("call 0", "rank 0 sends rank 1 " + sent + " bytes", "rank 1 expected " + expected + " bytes");
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aSkippedCallIsADisagreement(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 3, Ranks.DEADLINE, c -> {
            for (int layer = 0; layer < 5; layer++) {
                if (layer != 2 || c.rank() != 1) {
                    passOn(c, call("layer" + layer, 256, DType.BF16, 1), BYTES, BYTES);
                }
            }
            c.barrier("end");
            return null;
        });
        assertThat(sameFailure(outcomes, Code.DISAGREEMENT)).contains("call 2", "layer2", "layer3", "rank 1");
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void unequalLengthsOfASum(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 3, Ranks.DEADLINE, c -> {
            try (Arena arena = Arena.ofShared()) {
                c.allReduce("grads", DType.F32, arena.allocate(400).address(), c.rank() == 2 ? 99 : 100);
            }
            return null;
        });
        assertThat(sameFailure(outcomes, Code.DISAGREEMENT)).contains("grads", "channels=99", "channels=100");
    }

    /** Rank 3 never makes the call that rank 2 waits for; rank 0 has no edge with it. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aRankThatStopsIsNamedWithTheCall(String transport) throws Exception {
        CountDownLatch over = new CountDownLatch(3);
        CountDownLatch together = new CountDownLatch(4);
        List<Object> outcomes = Ranks.outcomes(transport, 4, Ranks.SHORT, c -> {
            together.countDown();
            together.await();
            c.barrier("start");
            if (c.rank() == 3) {
                over.await();
                c.barrier("too late");
            }
            try {
                c.barrier("step 7");
            } finally {
                over.countDown();
            }
            return null;
        });
        assertThat(sameFailure(outcomes, Code.DEADLINE))
                .contains(
                        "call 1", "\"step 7\"", "awaitedRanks=[3]", "furthest behind is rank 3", "deadlineMillis=3000");
    }

    /** Nobody awaits rank 1 at any edge, yet the others do not run on for ever. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aStoppedRankWithoutEdgesIsNoticed(String transport) throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        List<Object> outcomes = Ranks.outcomes(transport, 2, Duration.ofMillis(1200), c -> {
            if (c.rank() == 1) {
                over.await();
                c.barrier("too late");
            }
            try {
                for (int i = 0; i < 1000; i++) {
                    c.exchange(USUAL, List.of(), List.of()).await();
                }
            } finally {
                over.countDown();
            }
            return null;
        });
        assertThat(sameFailure(outcomes, Code.DEADLINE)).contains("awaitedRanks=[1]", "which made no call yet");
    }

    @ParameterizedTest
    @CsvSource({"local,2", "local,5", "tcp,2", "tcp,5"})
    void anAbortReachesRanksThatWaitForOthers(String transport, int ranks) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, ranks, Ranks.DEADLINE, c -> {
            if (c.rank() == 1) {
                Thread.sleep(50);
                c.abort("loss is NaN");
                c.abort("a later reason");
            }
            c.barrier("nobody gets here");
            return null;
        });
        assertThat(sameFailure(outcomes, Code.RANK_FAILED)).isEqualTo("rank 1 failed: loss is NaN");
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void everyLaterCallThrowsTheSame(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 3, Ranks.DEADLINE, c -> {
            if (c.rank() == 2) {
                c.abort("out of data");
            }
            String first = messageOf(() -> c.barrier("b"));
            assertThat(messageOf(() -> c.allGather("g", new byte[1]))).isEqualTo(first);
            assertThat(messageOf(() -> c.split(0, 0))).isEqualTo(first);
            assertThat(messageOf(() -> passOn(c, USUAL, BYTES, BYTES))).isEqualTo(first);
            c.abort("changes nothing");
            assertThat(messageOf(() -> c.allReduce("d", DType.F64, 0, 0))).isEqualTo(first);
            return first;
        });
        assertThat(outcomes).containsOnly("rank 2 failed: out of data");
    }

    private static String messageOf(Runnable call) {
        try {
            call.run();
        } catch (KcpException e) {
            return e.getMessage();
        }
        throw new AssertionError("no failure");
    }

    /** The interrupt must not break a connection: the others would then call the rank gone. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void anInterruptedRankIsNamed(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 3, Ranks.DEADLINE, c -> {
            for (int i = 0; i < 100_000; i++) {
                if (c.rank() == 1 && i == 20) {
                    Thread.currentThread().interrupt();
                }
                passOn(c, USUAL, BYTES, BYTES);
                c.barrier("b");
            }
            return null;
        });
        assertThat(sameFailure(outcomes, Code.RANK_FAILED)).isEqualTo("rank 1 was interrupted while it waited");
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void abortsOfAllRanksAtOnceEndInOneReason(String transport) throws Exception {
        CountDownLatch together = new CountDownLatch(4);
        List<Object> outcomes = Ranks.outcomes(transport, 4, Ranks.DEADLINE, c -> {
            together.countDown();
            together.await();
            c.abort("reason of rank " + c.rank());
            c.barrier("never");
            return null;
        });
        assertThat(sameFailure(outcomes, Code.RANK_FAILED)).contains("failed: reason of rank ");
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void anEarlyLeaverIsNamed(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 3, Ranks.DEADLINE, c -> {
            c.barrier("all are here");
            if (c.rank() == 1) {
                return "left";
            }
            c.barrier("step 1");
            return null;
        });
        assertThat(outcomes.get(1)).isEqualTo("left");
        String text = sameFailure(List.of(outcomes.get(0), outcomes.get(2)), Code.RANK_FAILED);
        assertThat(text).contains("rank 1 left the group before call 1", "\"step 1\"");
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void sendingToARankThatLeftIsAnError(String transport) throws Exception {
        CountDownLatch left = new CountDownLatch(1);
        List<Communicator> group = Ranks.group(transport, 2, Ranks.DEADLINE);
        List<Object> outcomes = Ranks.onThreads(2, rank -> {
            Communicator c = group.get(rank);
            if (rank == 1) {
                c.close();
                left.countDown();
                return null;
            }
            left.await();
            try (c;
                    Arena arena = Arena.ofShared()) {
                c.exchange(USUAL, List.of(new Segment(1, arena.allocate(8).address(), 8)), List.of())
                        .await();
                return null;
            }
        });
        assertThat(outcomes.get(0)).isInstanceOf(KcpException.class);
        assertThat(((KcpException) outcomes.get(0)).getMessage()).contains("rank 1 left the group before call 0");
        assertThat(outcomes.get(1)).isNull();
    }

    /** A receiver may be slow to read what a rank sent that has closed since: nothing is lost, nothing is said. */
    @ParameterizedTest
    @CsvSource({"local,8000000", "tcp,8000000", "local,8", "tcp,8"})
    void bytesOfARankThatLeftAfterwardsArrive(String transport, long bytes) throws Exception {
        Ranks.run(transport, 3, c -> {
            if (c.rank() > 0) {
                Thread.sleep(100L * c.rank());
            }
            passOn(c, USUAL, bytes, bytes);
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void closeTwiceThenCall(String transport) throws Exception {
        Ranks.run(transport, 2, c -> {
            c.barrier("b");
            c.close();
            c.close();
            assertThatThrownBy(() -> c.barrier("b")).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> passOn(c, USUAL, BYTES, BYTES)).isInstanceOf(IllegalStateException.class);
            c.abort("too late to matter");
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void closingWithAnExchangeUnderWayEndsTheGroup(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 2, Ranks.DEADLINE, c -> {
            if (c.rank() == 0) {
                c.exchange(USUAL, List.of(), List.of());
                return null;
            }
            c.exchange(USUAL, List.of(), List.of()).await();
            c.barrier("next");
            return null;
        });
        assertThat(sameFailure(outcomes.subList(1, 2), Code.RANK_FAILED))
                .contains("rank 0 failed: closed its communicator with an exchange under way: call 0");
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aHundredGroupsLeaveNoThreadOrFileBehind(String transport) throws Exception {
        int threads = 0;
        long files = 0;
        for (int i = 0; i < 100; i++) {
            Ranks.run(transport, 2, c -> {
                c.barrier("b");
                return null;
            });
            if (i == 5) {
                threads = Thread.getAllStackTraces().size();
                files = OpenFiles.count();
            }
        }
        Eventually.atMost(
                "threads", threads + 4, () -> Thread.getAllStackTraces().size());
        Eventually.atMost("open files", files + 8, OpenFiles::count);
    }
}
