package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.conv.NativeMemory;
import dev.kcp.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ExchangeTest {
    private static final Call HALO = new Call(Call.Kind.HALO_FORWARD, "layer0", 256, DType.BF16, 77);

    private static Segment segment(int peer, MemorySegment memory, long bytes) {
        return new Segment(peer, memory.address(), bytes);
    }

    @ParameterizedTest
    @CsvSource({"local,1", "local,2", "local,3", "local,4", "local,5", "tcp,1", "tcp,2", "tcp,3", "tcp,4", "tcp,5"})
    void everyRankSendsEveryRankItsOwnBytes(String transport, int ranks) throws Exception {
        Ranks.run(transport, ranks, c -> {
            try (Arena arena = Arena.ofShared()) {
                for (int round = 0; round < 20; round++) {
                    List<Segment> sends = new ArrayList<>();
                    List<Segment> receives = new ArrayList<>();
                    List<MemorySegment> rooms = new ArrayList<>();
                    for (int peer = 0; peer < ranks; peer++) {
                        MemorySegment room = arena.allocate(4096);
                        rooms.add(room);
                        if (peer != c.rank()) {
                            int out = bytes(c.rank(), peer, round);
                            sends.add(segment(peer, Ranks.pattern(arena, out, c.rank() * 7 + round), out));
                            receives.add(segment(peer, room, bytes(peer, c.rank(), round)));
                        }
                    }
                    c.exchange(HALO, sends, receives).await();
                    for (int peer = 0; peer < ranks; peer++) {
                        if (peer != c.rank()) {
                            Ranks.assertPattern(rooms.get(peer), bytes(peer, c.rank(), round), peer * 7 + round);
                        }
                    }
                }
                assertThat(c.stats().calls(Call.Kind.HALO_FORWARD)).isEqualTo(20);
                return null;
            }
        });
    }

    private static int bytes(int from, int to, int round) {
        return (from * 911 + to * 353 + round * 127) % 4000; // some are 0
    }

    /** The 24 bytes of 3 rows of 4 channels; then 24 MB both ways, more than any socket holds. */
    @ParameterizedTest
    @CsvSource({"local,24,500", "tcp,24,500", "local,24000000,4", "tcp,24000000,4"})
    void twoRanksSendEachOtherAtTheSameTime(String transport, long bytes, int rounds) throws Exception {
        Ranks.run(transport, 2, c -> {
            try (Arena arena = Arena.ofShared()) {
                MemorySegment mine = Ranks.pattern(arena, bytes, c.rank());
                MemorySegment theirs = arena.allocate(bytes);
                for (int round = 0; round < rounds; round++) {
                    theirs.fill((byte) 0);
                    c.exchange(
                                    HALO,
                                    List.of(segment(1 - c.rank(), mine, bytes)),
                                    List.of(segment(1 - c.rank(), theirs, bytes)))
                            .await();
                }
                Ranks.assertPattern(theirs, bytes, 1 - c.rank());
                assertThat(c.stats().bytesSent(Call.Kind.HALO_FORWARD)).isEqualTo(bytes * rounds);
                return null;
            }
        });
    }

    /** A receive in three segments of a send in two: they travel in list order. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void segmentsOfOnePeerTravelInListOrder(String transport) throws Exception {
        Ranks.run(transport, 2, c -> {
            try (Arena arena = Arena.ofShared()) {
                MemorySegment memory = c.rank() == 0 ? Ranks.pattern(arena, 100, 3) : arena.allocate(100);
                if (c.rank() == 0) {
                    c.exchange(HALO, List.of(segment(1, memory.asSlice(40), 60), segment(1, memory, 40)), List.of())
                            .await();
                } else {
                    c.exchange(
                                    HALO,
                                    List.of(),
                                    List.of(
                                            segment(0, memory.asSlice(40), 25),
                                            segment(0, memory.asSlice(65), 35),
                                            segment(0, memory, 0),
                                            segment(0, memory, 40)))
                            .await();
                    Ranks.assertPattern(memory, 100, 3);
                }
                return null;
            }
        });
    }

    /** Lengths 512, 511, 1 over 4 ranks: only 1 to 2 has an edge; all make the same calls. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void ranksWithoutAnEdgeMakeTheSameCalls(String transport) throws Exception {
        Ranks.run(transport, 4, c -> {
            try (Arena arena = Arena.ofShared()) {
                for (int round = 0; round < 300; round++) {
                    MemorySegment rows = c.rank() == 1 ? Ranks.pattern(arena, 48, round) : arena.allocate(48);
                    c.exchange(
                                    HALO,
                                    c.rank() == 1 ? List.of(segment(2, rows, 48)) : List.of(),
                                    c.rank() == 2 ? List.of(segment(1, rows, 48)) : List.of())
                            .await();
                    if (c.rank() == 2) {
                        Ranks.assertPattern(rows, 48, round);
                    }
                }
                return null;
            }
        });
    }

    /** The sender is far ahead of a receiver that is busy: payload waits at the receiver, in order. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aSlowReceiverGetsEveryCallsOwnBytes(String transport) throws Exception {
        Ranks.run(transport, 2, c -> {
            try (Arena arena = Arena.ofShared()) {
                for (int round = 0; round < 100; round++) {
                    int bytes = 1000 * (round % 7 + 1);
                    if (c.rank() == 0) {
                        c.exchange(HALO, List.of(segment(1, Ranks.pattern(arena, bytes, round), bytes)), List.of())
                                .await();
                    } else {
                        if (round % 40 == 0) {
                            Thread.sleep(50);
                        }
                        MemorySegment room = arena.allocate(bytes);
                        c.exchange(HALO, List.of(), List.of(segment(0, room, bytes)))
                                .await();
                        Ranks.assertPattern(room, bytes, round);
                    }
                }
                return null;
            }
        });
    }

    /** Case 77. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void twelveThousandSmallExchangesLeaveMemoryFlat(String transport) throws Exception {
        assertExchangesLeaveMemoryFlat(transport, 3000);
    }

    @ParameterizedTest
    @Tag("heavy")
    @ValueSource(strings = {"local", "tcp"})
    void aHundredThousandSmallExchangesLeaveMemoryFlat(String transport) throws Exception {
        assertExchangesLeaveMemoryFlat(transport, 25_000);
    }

    private static void assertExchangesLeaveMemoryFlat(String transport, int rounds) throws Exception {
        long[] used = new long[2];
        long[] outside = new long[2];
        Ranks.run(transport, 2, c -> {
            try (Arena arena = Arena.ofShared()) {
                MemorySegment mine = Ranks.pattern(arena, 24_576, c.rank());
                MemorySegment theirs = arena.allocate(24_576);
                for (int part = 0; part < 4; part++) {
                    for (int round = 0; round < rounds; round++) {
                        c.exchange(
                                        HALO,
                                        List.of(segment(1 - c.rank(), mine, 24_576)),
                                        List.of(segment(1 - c.rank(), theirs, 24_576)))
                                .await();
                    }
                    c.barrier("part");
                    if (c.rank() == 0 && (part == 0 || part == 3)) {
                        used[part / 3] = usedHeapBytes();
                        outside[part / 3] = NativeMemory.bytes();
                    }
                    c.barrier("measured");
                }
                return null;
            }
        });
        assertThat(used[1] - used[0]).as("growth of the heap in bytes").isLessThan(8L << 20);
        assertThat(outside[1]).as("bytes outside the heap").isLessThanOrEqualTo(outside[0]);
    }

    private static long usedHeapBytes() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void wrongArgumentsAreRefusedBeforeTheCallCounts(String transport) throws Exception {
        Ranks.run(transport, 2, c -> {
            Segment toSelf = new Segment(c.rank(), 0, 0);
            Segment toNobody = new Segment(2, 0, 0);
            assertThatThrownBy(() -> c.exchange(HALO, List.of(toSelf), List.of()))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("peer=" + c.rank());
            assertThatThrownBy(() -> c.exchange(HALO, List.of(), List.of(toNobody)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("peer=2");
            c.barrier("the group still works");
            assertThat(c.stats().calls(Call.Kind.HALO_FORWARD)).isZero();
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void oneExchangeAtATime(String transport) throws Exception {
        Ranks.run(transport, 2, c -> {
            PendingExchange pending = c.exchange(HALO, List.of(), List.of());
            assertThatThrownBy(() -> c.exchange(HALO, List.of(), List.of()))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("under way");
            pending.await();
            pending.await();
            c.barrier("the group still works");
            return null;
        });
    }
}
