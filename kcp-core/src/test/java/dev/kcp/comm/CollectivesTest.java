package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.conv.Eventually;
import dev.kcp.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CollectivesTest {
    private static float share(int rank, int i) {
        // Of mixed magnitude, so that another order of summation gives other bits.
        SplittableRandom random = new SplittableRandom(rank * 1_000_003L + i);
        return (float) ((random.nextDouble() - 0.5) * Math.pow(2, random.nextInt(40)));
    }

    @ParameterizedTest
    @CsvSource({
        "local,1,7", "local,2,0", "local,2,1", "local,3,7", "local,5,3", "local,4,100003",
        "tcp,1,7", "tcp,2,0", "tcp,2,1", "tcp,3,7", "tcp,5,3", "tcp,4,100003"
    })
    void sumsHaveTheBitsOfTheSumInRankOrder(String transport, int ranks, int elements) throws Exception {
        float[] floats = new float[elements];
        double[] doubles = new double[elements];
        for (int i = 0; i < elements; i++) {
            floats[i] = share(0, i);
            doubles[i] = share(0, i) / 3.0;
            for (int rank = 1; rank < ranks; rank++) {
                floats[i] += share(rank, i);
                doubles[i] += share(rank, i) / 3.0;
            }
        }
        Ranks.run(transport, ranks, c -> {
            try (Arena arena = Arena.ofShared()) {
                // Odd addresses of a shared buffer must do, and neighbours must stay untouched.
                MemorySegment f = arena.allocate(4L * elements + 8, 8);
                MemorySegment d = arena.allocate(8L * elements + 16, 8);
                for (int again = 0; again < 2; again++) {
                    f.fill((byte) 0x55);
                    d.fill((byte) 0x55);
                    for (int i = 0; i < elements; i++) {
                        f.set(ValueLayout.JAVA_FLOAT, 4L + 4L * i, share(c.rank(), i));
                        d.set(ValueLayout.JAVA_DOUBLE, 8L + 8L * i, share(c.rank(), i) / 3.0);
                    }
                    c.allReduce("f", DType.F32, f.address() + 4, elements);
                    c.allReduce("d", DType.F64, d.address() + 8, elements);
                    for (int i = 0; i < elements; i++) {
                        assertBits(
                                Float.floatToRawIntBits(f.get(ValueLayout.JAVA_FLOAT, 4L + 4L * i)),
                                Float.floatToRawIntBits(floats[i]),
                                i);
                        assertBits(
                                Double.doubleToRawLongBits(d.get(ValueLayout.JAVA_DOUBLE, 8L + 8L * i)),
                                Double.doubleToRawLongBits(doubles[i]),
                                i);
                    }
                    assertThat(f.get(ValueLayout.JAVA_INT, 0)).isEqualTo(0x55555555);
                    assertThat(f.get(ValueLayout.JAVA_INT, 4L + 4L * elements)).isEqualTo(0x55555555);
                    assertThat(d.get(ValueLayout.JAVA_INT, 8L + 8L * elements)).isEqualTo(0x55555555);
                }
                assertThat(c.stats().calls(Call.Kind.ALL_REDUCE)).isEqualTo(4);
                return null;
            }
        });
    }

    private static void assertBits(long actual, long expected, int at) {
        if (actual != expected) {
            throw new AssertionError("wrong bits: at=" + at + " actual=" + actual + " expected=" + expected);
        }
    }

    @ParameterizedTest
    @CsvSource({"local,1", "local,4", "tcp,1", "tcp,4"})
    void gathersUnequalLengths(String transport, int ranks) throws Exception {
        Ranks.run(transport, ranks, c -> {
            for (int round = 0; round < 50; round++) {
                byte[] mine = "x"
                        .repeat(c.rank() * 1000 * (round % 2))
                        .concat("r" + c.rank() + "." + round)
                        .getBytes(StandardCharsets.UTF_8);
                List<byte[]> all = c.allGather("names", c.rank() == 2 ? new byte[0] : mine);
                assertThat(all).hasSize(ranks);
                for (int peer = 0; peer < ranks; peer++) {
                    String text = new String(all.get(peer), StandardCharsets.UTF_8);
                    if (peer == 2) {
                        assertThat(text).isEmpty();
                    } else {
                        assertThat(text)
                                .endsWith("r" + peer + "." + round)
                                .hasSizeGreaterThanOrEqualTo(peer * 1000 * (round % 2));
                    }
                }
            }
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void nobodyPassesABarrierBeforeAllHaveCome(String transport) throws Exception {
        AtomicInteger came = new AtomicInteger();
        Ranks.run(transport, 3, c -> {
            for (int round = 1; round <= 30; round++) {
                if (c.rank() == round % 3) {
                    Thread.sleep(2);
                }
                came.incrementAndGet();
                c.barrier("b");
                assertThat(came.get()).isGreaterThanOrEqualTo(3 * round);
                c.barrier("counted");
            }
            return null;
        });
    }

    /** 2 x 3 ranks: context parallel inside data parallel; the key turns the order round. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void splitGroupsWorkSideBySide(String transport) throws Exception {
        Ranks.run(transport, 6, c -> {
            int row = c.rank() / 3;
            int column = c.rank() % 3;
            try (Communicator context = c.split(row, -column);
                    Communicator data = c.split(column, row)) {
                assertThat(context.size()).isEqualTo(3);
                assertThat(context.rank()).isEqualTo(2 - column);
                assertThat(data.size()).isEqualTo(2);
                assertThat(data.rank()).isEqualTo(row);
                for (int round = 0; round < 40; round++) {
                    List<byte[]> rows = context.allGather("row", new byte[] {(byte) c.rank(), (byte) round});
                    for (int peer = 0; peer < 3; peer++) {
                        assertThat(rows.get(peer)).containsExactly(row * 3 + 2 - peer, round);
                    }
                    if (row == 1) {
                        context.barrier("only in one row: numbering is per group");
                    }
                    List<byte[]> columns = data.allGather("column", new byte[] {(byte) c.rank()});
                    assertThat(columns.get(1 - row)).containsExactly((1 - row) * 3 + column);
                }
                try (Communicator pair = context.split(context.rank() == 2 ? 1 : 0, 0)) {
                    assertThat(pair.size()).isEqualTo(context.rank() == 2 ? 1 : 2);
                    pair.barrier("nested");
                }
            }
            c.barrier("the whole group still works");
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void subgroupsMayOutliveTheGroupTheyCameFrom(String transport) throws Exception {
        Ranks.run(transport, 4, c -> {
            try (Communicator half = c.split(c.rank() % 2, 0)) {
                c.close();
                assertThat(half.allGather("g", new byte[] {(byte) c.rank()}).get(1 - half.rank()))
                        .containsExactly((c.rank() + 2) % 4);
            }
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aFailureInOneSubgroupEndsAll(String transport) throws Exception {
        List<Object> outcomes = Ranks.outcomes(transport, 4, Ranks.DEADLINE, c -> {
            try (Communicator half = c.split(c.rank() % 2, 0)) {
                if (c.rank() == 3) {
                    half.abort("bad batch");
                }
                for (int i = 0; i < 1000; i++) {
                    half.barrier("b");
                    Thread.sleep(1);
                }
                c.barrier("end");
            }
            return null;
        });
        assertThat(outcomes).allSatisfy(outcome -> {
            assertThat(outcome).isInstanceOf(KcpException.class);
            assertThat(((KcpException) outcome).code()).isEqualTo(Code.RANK_FAILED);
            assertThat(((KcpException) outcome).getMessage()).isEqualTo("rank 3 failed: bad batch");
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void ranksThatHaveNotComeToTheLatestCallAreKnown(String transport) throws Exception {
        CountDownLatch seen = new CountDownLatch(2);
        Ranks.run(transport, 3, c -> {
            Call call = Call.of(Call.Kind.EXCHANGE, "no rows");
            assertThat(c.lateRanks()).as("before any call").isEmpty();
            c.barrier("begin");
            if (c.rank() == 1) {
                seen.await();
            }
            // A rank with nothing to receive goes on before the others come.
            c.exchange(call, List.of(), List.of()).await();
            if (c.rank() != 1) {
                Eventually.reach("rank 1 is late", () -> c.lateRanks().equals(List.of(1)));
                seen.countDown();
            }
            Eventually.reach("nobody is late", () -> c.lateRanks().isEmpty());
            c.barrier("end");
            return null;
        });
    }
}
