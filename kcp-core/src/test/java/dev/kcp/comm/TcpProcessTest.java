package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import java.io.BufferedReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Ranks as real processes. */
class TcpProcessTest {
    private static final int FOREVER = Integer.MAX_VALUE;
    private static final int NEVER_MILLIS = (int) Eventually.LIMIT.toMillis();
    private static final long THREE_ROWS = 3 * 256 * 2;

    private final List<Process> ranks = new ArrayList<>();
    private final List<BufferedReader> outputs = new ArrayList<>();
    private StoreServer store;

    @BeforeEach
    void startStore() {
        store = StoreServer.start("127.0.0.1", 0, "job", "secret");
    }

    @AfterEach
    void endAll() {
        ranks.forEach(Process::destroyForcibly);
        store.close();
    }

    private void start(int worldSize, int steps, int deadlineMillis, long rowBytes) throws IOException {
        for (int rank = 0; rank < worldSize; rank++) {
            ProcessBuilder builder = new ProcessBuilder(
                    ProcessHandle.current().info().command().orElseThrow(),
                    "-Xmx64m",
                    "-XX:TieredStopAtLevel=1",
                    "--enable-native-access=ALL-UNNAMED",
                    "-cp",
                    System.getProperty("java.class.path"),
                    ProcessRank.class.getName(),
                    Integer.toString(steps),
                    Integer.toString(deadlineMillis),
                    Long.toString(rowBytes));
            builder.environment().put("RANK", Integer.toString(rank));
            builder.environment().put("WORLD_SIZE", Integer.toString(worldSize));
            builder.environment().put("KCP_STORE", "127.0.0.1:" + store.port());
            builder.environment().put("KCP_JOB_ID", "job");
            builder.environment().put("KCP_SECRET", "secret");
            ranks.add(builder.redirectErrorStream(true).start());
            outputs.add(ranks.getLast().inputReader());
        }
        for (BufferedReader output : outputs) {
            assertThat(output.readLine()).isEqualTo("rows have gone round");
        }
    }

    private void assertEnds(int rank, int exitCode, String... texts) throws Exception {
        assertThat(ranks.get(rank).waitFor(Eventually.LIMIT)).isTrue();
        assertThat(String.join("\n", outputs.get(rank).lines().toList())).contains(texts);
        assertThat(ranks.get(rank).exitValue()).isEqualTo(exitCode);
    }

    @Test
    void allStepsThenAnOrderlyEnd() throws Exception {
        start(3, 2000, NEVER_MILLIS, THREE_ROWS);
        for (int rank = 0; rank < 3; rank++) {
            assertEnds(rank, 0, "done");
        }
    }

    @Test
    void aKilledRankIsNamedByAll() throws Exception {
        start(4, FOREVER, NEVER_MILLIS, THREE_ROWS);
        ranks.get(1).destroyForcibly();
        for (int rank : new int[] {0, 2, 3}) {
            assertEnds(rank, 5, "rank 1 is gone (connection closed)");
        }
    }

    /** Also while rows lie in its socket that nobody takes out. */
    @ParameterizedTest
    @ValueSource(longs = {THREE_ROWS, 8_000_000})
    void aStoppedRankIsNamedByAll(long rowBytes) throws Exception {
        start(3, FOREVER, 5000, rowBytes);
        Process stop =
                new ProcessBuilder("kill", "-STOP", Long.toString(ranks.get(2).pid())).start();
        assertThat(stop.waitFor()).isZero();
        for (int rank : new int[] {0, 1}) {
            assertEnds(rank, 6, "furthest behind is rank 2", "deadlineMillis=5000");
        }
    }
}
