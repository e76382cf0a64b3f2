package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.Segment;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Messages of every length and place between two GPUs, by both routes. */
@NeedsTwoGpus
class NcclRouteTest {
    private static final int BUFFER_BYTES = 8 << 20;

    /** Where a message lies in its buffer. */
    private record Place(int begin, int bytes) {}

    private static Call call(String label, long planDigest) {
        return new Call(Call.Kind.EXCHANGE, label, 1, DType.F32, planDigest);
    }

    private static List<Segment> segments(int peer, Tensor buffer, List<Place> places) {
        return places.stream()
                .map(place -> new Segment(peer, buffer.address() + place.begin(), place.bytes()))
                .toList();
    }

    /** Bytes that differ from place to place, from rank to rank and from turn to turn. */
    private static Tensor pattern(int rank, int turn) {
        Tensor host = Tensor.zeros(DType.I32, BUFFER_BYTES / 4);
        long address = host.address();
        for (int i = 0; i < BUFFER_BYTES / 4; i++) {
            HostMemory.ALL.set(
                    java.lang.foreign.ValueLayout.JAVA_INT, address + 4L * i, (i * 31 + rank * 7 + turn) * 0x9e3779b1);
        }
        return host;
    }

    private static byte[] bytes(Tensor host, Place place) {
        return HostMemory.ALL
                .asSlice(host.address() + place.begin(), place.bytes())
                .toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
    }

    /** Sends what lies at the places of the own buffer to the peer, which receives it at the same places. */
    private static boolean swaps(
            NcclCommunicator communicator, CudaConvEngine engine, List<List<Place>> exchanges, int turn) {
        int rank = communicator.rank();
        int peer = 1 - rank;
        try (Tensor mine = pattern(rank, turn);
                Tensor theirs = pattern(peer, turn);
                Tensor from = engine.stream().upload(mine);
                Tensor to = engine.stream().zeros(DType.I32, BUFFER_BYTES / 4)) {
            for (List<Place> places : exchanges) {
                communicator
                        .exchange(call("swap", 0), segments(peer, from, places), segments(peer, to, places))
                        .await();
            }
            communicator.synchronize();
            try (Tensor got = engine.stream().download(to)) {
                for (List<Place> places : exchanges) {
                    for (Place place : places) {
                        assertThat(bytes(got, place))
                                .as("rank %s turn %s place %s", rank, turn, place)
                                .isEqualTo(bytes(theirs, place));
                    }
                }
            }
            return communicator.isDirect(peer);
        }
    }

    private static void assertSwaps(Route route, List<List<List<Place>>> turns) {
        try (GpuRanks ranks = new GpuRanks(2, GpuRanks.DEADLINE, route)) {
            List<Boolean> direct = ranks.run((communicator, engine) -> {
                boolean is = false;
                for (int turn = 0; turn < turns.size(); turn++) {
                    is = swaps(communicator, engine, turns.get(turn), turn);
                }
                return is;
            });
            assertThat(direct).as("both ranks go the same way").containsOnly(direct.getFirst());
            if (route == Route.COLLECTIVE) {
                assertThat(direct).containsOnly(false);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Route.class)
    void messagesOfEveryLengthAroundALaneAndAMailbox(Route route) {
        List<List<Place>> exchanges = new ArrayList<>();
        int begin = 0;
        for (int length : List.of(1, 3, 4, 15, 16, 17, 4095, 4096, 4097, 8192, (1 << 20) - 1, 1 << 20, (1 << 20) + 1)) {
            exchanges.add(List.of(new Place(begin, length)));
            begin += (length + 15) / 16 * 16;
        }
        assertSwaps(route, List.of(exchanges, exchanges));
    }

    @ParameterizedTest
    @EnumSource(Route.class)
    void messagesAtPlacesOfEveryAlignment(Route route) {
        List<List<Place>> exchanges = new ArrayList<>();
        for (int shift = 0; shift < 16; shift++) {
            exchanges.add(List.of(new Place(100_000 * shift + shift, 5000), new Place(100_000 * shift + 50_000, 77)));
        }
        assertSwaps(route, List.of(exchanges));
    }

    @ParameterizedTest
    @EnumSource(Route.class)
    void moreMessagesInOneExchangeThanALaunchTakes(Route route) {
        List<Place> places = new ArrayList<>();
        for (int i = 0; i < 150; i++) {
            places.add(new Place(i * 8192, 16 + 64 * (i % 70)));
        }
        assertSwaps(route, List.of(List.of(places), List.of(places)));
    }

    @ParameterizedTest
    @EnumSource(Route.class)
    void thousandsOfExchangesGoRoundTheMailboxesInOrder(Route route) {
        Random random = new Random(5);
        List<List<List<Place>>> turns = new ArrayList<>();
        for (int turn = 0; turn < 8; turn++) {
            List<List<Place>> exchanges = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                exchanges.add(List.of(new Place(16_384 * i, 16 * (1 + random.nextInt(1000)))));
            }
            turns.add(exchanges);
        }
        assertSwaps(route, turns);
    }

    /** One direction only: the sender is far ahead of what the receiver has taken, and waits for it. */
    @ParameterizedTest
    @EnumSource(Route.class)
    void aSenderRunsAheadOfItsReceiver(Route route) {
        try (GpuRanks ranks = new GpuRanks(2, GpuRanks.DEADLINE, route)) {
            ranks.run((communicator, engine) -> {
                int count = 200;
                boolean sender = communicator.rank() == 0;
                try (Tensor mine = pattern(0, 0);
                        Tensor buffer = sender
                                ? engine.stream().upload(mine)
                                : engine.stream().zeros(DType.I32, BUFFER_BYTES / 4)) {
                    if (!sender) {
                        sleep(300);
                    }
                    for (int i = 0; i < count; i++) {
                        List<Segment> message =
                                segments(1 - communicator.rank(), buffer, List.of(new Place(i * 32_768, 20_000)));
                        communicator
                                .exchange(call("ahead", 0), sender ? message : List.of(), sender ? List.of() : message)
                                .await();
                    }
                    communicator.synchronize();
                    if (!sender) {
                        try (Tensor got = engine.stream().download(buffer)) {
                            for (int i = 0; i < count; i++) {
                                Place place = new Place(i * 32_768, 20_000);
                                assertThat(bytes(got, place)).isEqualTo(bytes(mine, place));
                            }
                        }
                    }
                }
                return null;
            });
        }
    }

    @Test
    void aMessageOfAnotherLengthIsADisagreement() {
        List<Throwable> failures = new ArrayList<>();
        try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(2), Route.DIRECT)) {
            Throwable first = catchThrowable(() -> ranks.run((communicator, engine) -> {
                assumeTrue(communicator.isDirect(1 - communicator.rank()), "needs GPUs that NVLink connects");
                try (Tensor buffer = engine.stream().zeros(DType.I32, 1024)) {
                    int peer = 1 - communicator.rank();
                    communicator
                            .exchange(
                                    call("lengths", 0),
                                    segments(peer, buffer, List.of(new Place(0, 64))),
                                    segments(
                                            peer, buffer, List.of(new Place(2048, communicator.rank() == 0 ? 64 : 80))))
                            .await();
                    for (int i = 0; i < 100; i++) {
                        sleep(10);
                        communicator.checkAlive();
                    }
                }
                return null;
            }));
            assertThat(first).isNotNull();
            failures.addAll(List.of(first.getSuppressed()));
        }
        assertThat(failures).hasSize(2).allSatisfy(e -> assertThat(e)
                .isInstanceOfSatisfying(
                        KcpException.class, k -> assertThat(k.code()).isEqualTo(KcpException.Code.DISAGREEMENT))
                .hasMessageContaining("rank 1 got stray rows"));
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
