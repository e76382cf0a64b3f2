package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TcpJoinTest {
    private static Object joinAndGather(RankInfo me, Duration deadline) {
        try (Communicator c = TcpCommunicator.join(me, deadline)) {
            List<byte[]> all = c.allGather("g", new byte[] {(byte) c.rank()});
            return all.size() + c.transport();
        }
    }

    private static void assertRendezvous(Object outcome, String... texts) {
        assertThat(outcome).isInstanceOfSatisfying(KcpException.class, e -> {
            assertThat(e.code()).isEqualTo(Code.RENDEZVOUS);
            assertThat(e.getMessage()).contains(texts);
        });
    }

    @Test
    void missingRanksAreAllNamed() throws Exception {
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "s")) {
            List<Object> outcomes = Ranks.onThreads(
                    3, i -> joinAndGather(Ranks.rankInfo(i * 2, 6, store.port(), "job", "s"), Ranks.SHORT));
            for (Object outcome : outcomes) {
                assertRendezvous(
                        outcome,
                        "missingRanks=[1, 3, 5]",
                        "worldSize=6",
                        "deadlineMillis=3000",
                        "store=127.0.0.1:" + store.port());
            }
        }
    }

    @Test
    void theSameRankTwiceIsRefused() throws Exception {
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "s")) {
            List<Object> outcomes =
                    Ranks.onThreads(2, _ -> joinAndGather(Ranks.rankInfo(0, 2, store.port(), "job", "s"), Ranks.SHORT));
            assertThat(outcomes).anySatisfy(o -> assertRendezvous(o, "another process is this rank already: rank=0"));
            assertThat(outcomes).anySatisfy(o -> assertRendezvous(o, "missingRanks=[1]"));
        }
    }

    @Test
    void aStrangerIsRefusedAndTheJobGoesOn() throws Exception {
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "s")) {
            List<Object> outcomes = Ranks.onThreads(5, i -> switch (i) {
                case 3 -> joinAndGather(Ranks.rankInfo(1, 3, store.port(), "another", "s"), Ranks.DEADLINE);
                case 4 -> joinAndGather(Ranks.rankInfo(1, 3, store.port(), "job", "x"), Ranks.DEADLINE);
                default -> joinAndGather(Ranks.rankInfo(i, 3, store.port(), "job", "s"), Ranks.DEADLINE);
            });
            assertThat(outcomes.subList(0, 3)).containsOnly("3tcp");
            assertRendezvous(outcomes.get(3), "another job");
            assertRendezvous(outcomes.get(4), "wrong secret");
        }
    }

    /** Noise, a wrong job and a wrong secret at a rank's own port while it waits for the others. */
    @Test
    void strangersAtARanksPortAreRefused() throws Exception {
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "s")) {
            List<Object> outcomes = Ranks.onThreads(3, i -> {
                if (i == 0) {
                    return joinAndGather(Ranks.rankInfo(0, 2, store.port(), "job", "s"), Ranks.DEADLINE);
                }
                HostAndPort rank0 = addressOfRank0(store);
                if (i == 1) {
                    Thread.sleep(500);
                    return joinAndGather(Ranks.rankInfo(1, 2, store.port(), "job", "s"), Ranks.DEADLINE);
                }
                List<String> refusals = new ArrayList<>();
                for (Hello hello : List.of(
                        new Hello("communicator world", "another", "s", 1),
                        new Hello("communicator world", "job", "x", 1),
                        new Hello("communicator other", "job", "s", 1))) {
                    try (Socket stranger = new Socket(rank0.host(), rank0.port())) {
                        hello.greet(stranger.getInputStream(), stranger.getOutputStream());
                    } catch (Hello.RefusedException e) {
                        refusals.add(e.getMessage());
                    }
                }
                try (Socket noise = new Socket(rank0.host(), rank0.port())) {
                    noise.getOutputStream().write(new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9});
                    assertThat(noise.getInputStream().read()).isEqualTo(-1);
                } catch (SocketException e) {
                    assertThat(e).hasMessageContaining("reset");
                }
                return refusals;
            });
            assertThat(outcomes.subList(0, 2)).containsOnly("2tcp");
            assertThat(outcomes.get(2))
                    .asInstanceOf(InstanceOfAssertFactories.list(String.class))
                    .hasSize(3)
                    .satisfiesExactly(
                            text -> assertThat(text).contains("another job"),
                            text -> assertThat(text).contains("wrong secret"),
                            text -> assertThat(text).contains("communicator other"));
        }
    }

    private static HostAndPort addressOfRank0(StoreServer store) {
        try (StoreClient client =
                StoreClient.connect(new HostAndPort("127.0.0.1", store.port()), "job", "s", Ranks.DEADLINE)) {
            return HostAndPort.parse(
                    new String(client.get("world/0", Ranks.DEADLINE).orElseThrow()));
        }
    }

    /** As under mpirun: no launcher's store; rank 0 comes last. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4})
    void rankZeroHostsTheStore(int ranks) throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        List<Object> outcomes = Ranks.onThreads(ranks, rank -> {
            if (rank == 0) {
                Thread.sleep(200);
            }
            return joinAndGather(
                    new RankInfo(rank, rank, ranks, ranks, "127.0.0.1", port, null, "", ""), Ranks.DEADLINE);
        });
        assertThat(outcomes).containsOnly(ranks + "tcp");
    }

    @Test
    void rankZeroNamesABusyMasterPort() throws Exception {
        try (ServerSocket busy = new ServerSocket(0)) {
            int port = busy.getLocalPort();
            List<Object> outcomes = Ranks.onThreads(
                    1, _ -> joinAndGather(new RankInfo(0, 0, 2, 2, "127.0.0.1", port, null, "", ""), Ranks.SHORT));
            assertRendezvous(outcomes.getFirst(), "host=127.0.0.1", "port=" + port);
        }
    }

    @Test
    void twoJobsAtOnceTwentyTimes() throws Exception {
        for (int i = 0; i < 20; i++) {
            try (StoreServer a = StoreServer.start("127.0.0.1", 0, "a", "sa");
                    StoreServer b = StoreServer.start("127.0.0.1", 0, "b", "sb")) {
                List<Object> outcomes = Ranks.onThreads(
                        4,
                        n -> joinAndGather(
                                n < 2
                                        ? Ranks.rankInfo(n, 2, a.port(), "a", "sa")
                                        : Ranks.rankInfo(n - 2, 2, b.port(), "b", "sb"),
                                Ranks.DEADLINE));
                assertThat(outcomes).containsOnly("2tcp");
            }
        }
    }

    @Test
    void severalCommunicatorsOfOneJob() throws Exception {
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "secret")) {
            List<Communicator> first = Ranks.join(store, 3, "first", Ranks.DEADLINE);
            List<Communicator> second = Ranks.join(store, 3, "second", Ranks.DEADLINE);
            List<Object> outcomes = Ranks.onThreads(3, rank -> {
                try (Communicator a = first.get(rank);
                        Communicator b = second.get(rank)) {
                    for (int i = 0; i < 200; i++) {
                        a.barrier("a");
                        b.barrier("b");
                    }
                    return null;
                }
            });
            assertThat(outcomes).containsOnlyNulls();
        }
    }

    @Test
    void sixtyFourRanks() throws Exception {
        Ranks.run("tcp", 64, c -> {
            for (int i = 0; i < 3; i++) {
                assertThat(c.allGather("g", new byte[] {(byte) c.rank()}).get(63))
                        .containsExactly(63);
            }
            return null;
        });
    }
}
