package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class StoreTest {
    private static final Duration SOON = Eventually.LIMIT;

    private static StoreServer store() {
        return StoreServer.start("127.0.0.1", 0, "job", "secret");
    }

    private static StoreClient client(StoreServer store) {
        return StoreClient.connect(new HostAndPort("127.0.0.1", store.port()), "job", "secret", SOON);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void aReaderWaitsForTheWriter() throws Exception {
        try (StoreServer store = store();
                StoreClient reader = client(store);
                StoreClient writer = client(store)) {
            assertThat(reader.get("world/0", Duration.ZERO)).isEmpty();
            CompletableFuture<byte[]> read = CompletableFuture.supplyAsync(
                    () -> reader.get("world/0", SOON).orElseThrow());
            Thread.sleep(50);
            assertThat(read).isNotDone();
            assertThat(writer.set("world/0", utf8("here:1"))).isTrue();
            assertThat(read.join()).isEqualTo(utf8("here:1"));
            assertThat(writer.set("world/0", utf8("here:1"))).isTrue();
            assertThat(writer.set("world/0", utf8("there:2"))).isFalse();
            assertThat(reader.get("world/0", SOON)).hasValue(utf8("here:1"));
            assertThat(writer.set("empty", new byte[0])).isTrue();
            assertThat(reader.get("empty", SOON)).hasValue(new byte[0]);
        }
    }

    @Test
    void aWaitEndsAtItsDeadline() {
        try (StoreServer store = store();
                StoreClient reader = client(store)) {
            long begin = System.nanoTime();
            assertThat(reader.get("nobody/writes", Duration.ofMillis(2300))).isEmpty();
            assertThat(Duration.ofNanos(System.nanoTime() - begin)).isGreaterThanOrEqualTo(Duration.ofMillis(2200));
        }
    }

    @Test
    void strangersAreToldWhy() {
        try (StoreServer store = store()) {
            HostAndPort at = new HostAndPort("127.0.0.1", store.port());
            assertThatThrownBy(() -> StoreClient.connect(at, "other", "secret", SOON))
                    .isInstanceOfSatisfying(
                            KcpException.class, e -> assertThat(e.code()).isEqualTo(Code.RENDEZVOUS))
                    .hasMessageContainingAll("another job", "jobId=other", "store=" + at);
            assertThatThrownBy(() -> StoreClient.connect(at, "job", "guess", SOON))
                    .isInstanceOf(KcpException.class)
                    .hasMessageContainingAll("wrong secret", "store=" + at)
                    .message()
                    .doesNotContain("guess");
        }
    }

    @Test
    void garbageDoesNotDisturb() throws Exception {
        try (StoreServer store = store();
                StoreClient good = client(store)) {
            Random random = new Random(5);
            for (int i = 0; i < 50; i++) {
                try (Socket stranger = new Socket("127.0.0.1", store.port())) {
                    byte[] noise = new byte[random.nextInt(5000)];
                    random.nextBytes(noise);
                    stranger.getOutputStream().write(i == 0 ? utf8("GET / HTTP/1.1\r\n\r\n") : noise);
                } catch (IOException _) {
                    // Cut off while it still wrote: as it should be.
                }
            }
            try (Socket silent = new Socket("127.0.0.1", store.port())) {
                assertThat(silent.isConnected()).isTrue();
                assertThat(good.set("k", utf8("v"))).isTrue();
                try (StoreClient another = client(store)) {
                    assertThat(another.get("k", SOON)).hasValue(utf8("v"));
                }
            }
        }
    }

    @Test
    void aBusyPortIsNamed() throws Exception {
        try (ServerSocket busy = new ServerSocket(0)) {
            assertThatThrownBy(() -> StoreServer.start("0.0.0.0", busy.getLocalPort(), "job", "secret"))
                    .isInstanceOfSatisfying(
                            KcpException.class, e -> assertThat(e.code()).isEqualTo(Code.RENDEZVOUS))
                    .hasMessageContainingAll("host=0.0.0.0", "port=" + busy.getLocalPort(), "in use");
        }
        assertThatThrownBy(() -> StoreServer.start("no.such.host.invalid", 1234, "job", "secret"))
                .isInstanceOf(KcpException.class)
                .hasMessageContainingAll("host=no.such.host.invalid", "port=1234");
    }

    @Test
    void nobodyListensUntilTheDeadline() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        HostAndPort at = new HostAndPort("127.0.0.1", port);
        assertThatThrownBy(() -> StoreClient.connect(at, "job", "secret", Duration.ofMillis(400)))
                .isInstanceOfSatisfying(
                        KcpException.class, e -> assertThat(e.code()).isEqualTo(Code.RENDEZVOUS))
                .hasMessageContainingAll("refused", "store=" + at, "deadlineMillis=400");
    }

    @Test
    void aLostStoreIsAnErrorAtOnce() throws Exception {
        StoreServer store = store();
        try (StoreClient reader = client(store)) {
            CompletableFuture<Object> read = CompletableFuture.supplyAsync(() -> {
                try {
                    return reader.get("k", Duration.ofMinutes(5));
                } catch (KcpException e) {
                    return e;
                }
            });
            Thread.sleep(50);
            store.close();
            store.close();
            // The server may still have answered "absent" to the wait that it cut short; the next request then fails.
            assertThat(read.join()).isInstanceOfSatisfying(KcpException.class, e -> assertThat(e.getMessage())
                    .contains("the store is lost"));
        }
    }

    @Test
    void addressesAreReadBothWays() {
        for (String text : List.of("node0:29500", "127.0.0.1:1", "[fe80::1]:65535")) {
            assertThat(HostAndPort.parse(text)).hasToString(text);
        }
        for (String text : List.of("", "node0", ":1", "node0:", "node0:-1", "node0:65536", "node0:a")) {
            assertThatThrownBy(() -> HostAndPort.parse(text))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("address=" + text);
        }
    }
}
