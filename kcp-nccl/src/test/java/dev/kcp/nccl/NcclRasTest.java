package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.comm.HostAndPort;
import dev.kcp.conv.Eventually;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

/** Against a server that answers as NCCL 2.28 did, or does not. */
class NcclRasTest {
    private static final Duration PATIENCE = Duration.ofMillis(900);
    private static final Duration LONG = Eventually.LIMIT;

    /** Takes one connection after another; what each does is the test's matter. */
    private static final class Server implements AutoCloseable {
        private final ServerSocket socket;
        private final List<String> asked = new CopyOnWriteArrayList<>();

        interface Talk {
            void with(Socket client, BufferedReader in, List<String> asked) throws IOException;
        }

        Server(Talk... talks) throws IOException {
            socket = new ServerSocket(0, 10, InetAddress.getByName("127.0.0.1"));
            Thread.ofPlatform().daemon().start(() -> {
                try {
                    for (Talk talk : talks) {
                        Socket client = socket.accept();
                        Thread.ofPlatform().daemon().start(() -> serve(client, talk));
                    }
                } catch (IOException closed) {
                    // The test is over.
                }
            });
        }

        private void serve(Socket client, Talk talk) {
            try (client;
                    BufferedReader in = new BufferedReader(
                            new InputStreamReader(client.getInputStream(), StandardCharsets.US_ASCII))) {
                talk.with(client, in, asked);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        HostAndPort address() {
            return new HostAndPort("127.0.0.1", socket.getLocalPort());
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    private static void say(Socket client, String text) throws IOException {
        client.getOutputStream().write(text.getBytes(StandardCharsets.US_ASCII));
    }

    private static void answer(Socket client, BufferedReader in, List<String> asked) throws IOException {
        asked.add(in.readLine());
        say(client, "SERVER PROTOCOL 2\n");
        asked.add(in.readLine());
        say(client, "OK\n");
        asked.add(in.readLine());
        say(client, "NCCL version 2.28.9 compiled with CUDA 13.0\n\nErrors\n===");
        say(client, "===\n\n  Process 1596 on node 192.0.2.2 managing GPU 1  \n\n");
    }

    private static void sleep(Socket client, BufferedReader in, List<String> asked) throws IOException {
        // Until the other side gives up.
        while (in.readLine() != null) {
            asked.add("nothing");
        }
    }

    @Test
    void theWholeAnswerWithoutBlankLines() throws IOException {
        try (Server server = new Server(NcclRasTest::answer)) {
            assertThat(NcclRas.status(server.address(), LONG))
                    .containsExactly(
                            "NCCL version 2.28.9 compiled with CUDA 13.0",
                            "Errors",
                            "======",
                            "  Process 1596 on node 192.0.2.2 managing GPU 1");
            assertThat(server.asked).containsExactly("CLIENT PROTOCOL 2", "TIMEOUT 1", "STATUS");
        }
    }

    @Test
    void aListenerThatHangsIsLeftForTheNextOne() throws IOException {
        try (Server server = new Server(NcclRasTest::sleep, NcclRasTest::sleep, NcclRasTest::answer)) {
            assertThat(NcclRas.status(server.address(), LONG)).hasSize(4);
        }
    }

    @Test
    void silenceEndsWithThePatience() throws IOException {
        try (Server never = new Server(NcclRasTest::sleep, NcclRasTest::sleep, NcclRasTest::sleep, NcclRasTest::sleep);
                Server halfWay = new Server((client, in, asked) -> {
                    say(client, "SERVER PROTOCOL 2\nOK\n");
                    sleep(client, in, asked);
                })) {
            assertThat(NcclRas.status(never.address(), PATIENCE)).isEmpty();
            assertThat(NcclRas.status(halfWay.address(), PATIENCE)).isEmpty();
        }
    }

    @Test
    void nobodyThereOrSomebodyElseIsNoAnswer() throws IOException {
        HostAndPort nobody;
        try (Server other = new Server((client, in, asked) -> say(client, "220 mail.example ESMTP\r\n"))) {
            assertThat(NcclRas.status(other.address(), LONG)).isEmpty();
            nobody = other.address();
        }
        long start = System.nanoTime();
        assertThat(NcclRas.status(nobody, LONG)).isEmpty();
        // Nobody is asked a second time.
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(LONG.dividedBy(2));
    }

    @Test
    void theUsersAddressComesFirstThenNcclsUsualOne() {
        assertThat(NcclRas.address(null, null)).contains(new HostAndPort("localhost", 28028));
        assertThat(NcclRas.address("1", "[::1]:1234")).contains(new HostAndPort("::1", 1234));
        assertThat(NcclRas.address(null, "nonsense")).isEmpty();
        assertThat(NcclRas.address("0", null)).isEmpty();
    }

    @Test
    void aProcessAnswersForItselfAloneWhereTheUserHasNotSaidWhere() {
        assumeTrue(System.getenv("NCCL_RAS_ADDR") == null && System.getenv("NCCL_RAS_ENABLE") == null);
        NcclRas.listenApart();
        HostAndPort first = NcclRas.address().orElseThrow();
        assertThat(first.host()).isEqualTo("127.0.0.1");
        assertThat(NativeEnvironment.get("NCCL_RAS_ADDR")).isEqualTo(first.toString());
        NcclRas.listenApart();
        assertThat(NcclRas.address()).as("for the life of the process").contains(first);
    }

    @Test
    void theEnvironmentAsLibrariesReadIt() {
        assertThat(NativeEnvironment.get("PATH")).isEqualTo(System.getenv("PATH"));
        assertThat(NativeEnvironment.get("KCP_TEST_NO_SUCH_VARIABLE")).isNull();
        NativeEnvironment.setIfAbsent("KCP_TEST_NEW_VARIABLE", "first");
        NativeEnvironment.setIfAbsent("KCP_TEST_NEW_VARIABLE", "second");
        assertThat(NativeEnvironment.get("KCP_TEST_NEW_VARIABLE")).isEqualTo("first");
    }
}
