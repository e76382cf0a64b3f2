package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.GoldenTest;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.IntFunction;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Ranks as other launchers start them: processes with those launchers' variables and nothing else. The scripts in
 * environments/ do the same with the real ones.
 */
class OtherLaunchersTest {
    @TempDir
    private Path folder;

    private Path in;

    @BeforeEach
    void writeInput() throws IOException {
        in = folder.resolve("in.safetensors");
        try (InputStream golden = GoldenTest.class.getResourceAsStream("/golden/bias_bf16.safetensors")) {
            Files.copy(golden, in);
        }
    }

    private String[] conv(String out, String... more) {
        List<String> args = new ArrayList<>(List.of(
                "conv", "--in", in.toString(), "--out", folder.resolve(out).toString(), "--backward"));
        args.addAll(List.of(more));
        return args.toArray(String[]::new);
    }

    /** Runs a job of ranks, the last first, and returns what each left. */
    private List<KcpProcess.Result> ranks(int ranks, IntFunction<Map<String, String>> environment, String... args) {
        KcpProcess[] started = new KcpProcess[ranks];
        try {
            for (int rank = ranks - 1; rank >= 0; rank--) {
                started[rank] = KcpProcess.start(environment.apply(rank), args);
            }
            List<KcpProcess.Result> results = new ArrayList<>();
            for (KcpProcess process : started) {
                results.add(process.await());
            }
            return results;
        } finally {
            for (KcpProcess process : started) {
                if (process != null) {
                    process.close();
                }
            }
        }
    }

    private void assertSameAsOneProcess(List<KcpProcess.Result> results, String launcher) throws IOException {
        assertThat(results)
                .allSatisfy(
                        result -> assertThat(result.exitCode()).as(result.err()).isZero());
        assertThat(results.getFirst().out()).contains("\"world\":" + results.size());
        assertThat(results.getFirst().err().lines())
                .singleElement()
                .asString()
                .startsWith("kcp: " + results.size() + " ranks started by " + launcher);
        assertThat(results.subList(1, results.size())).allSatisfy(result -> {
            assertThat(result.out()).isEmpty();
            assertThat(result.err()).isEmpty();
        });
        assertThat(KcpProcess.run(conv("one")).exitCode()).isZero();
        assertThat(Files.mismatch(folder.resolve("one"), folder.resolve("many")))
                .isEqualTo(-1);
    }

    @Test
    void openMpiInsideABatchJobOnOneHostNeedsNoAddress() throws IOException {
        String namespace = UUID.randomUUID().toString();
        List<KcpProcess.Result> results = ranks(
                3,
                rank -> Map.of(
                        "OMPI_COMM_WORLD_RANK", "" + rank,
                        "OMPI_COMM_WORLD_SIZE", "3",
                        "OMPI_COMM_WORLD_LOCAL_RANK", "" + rank,
                        "OMPI_COMM_WORLD_LOCAL_SIZE", "3",
                        "PMIX_NAMESPACE", namespace,
                        "SLURM_PROCID", "0",
                        "SLURM_NTASKS", "1"),
                conv("many", "--align", "64", "--handle"));
        assertSameAsOneProcess(results, "Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE); set aside: SLURM");
    }

    @Test
    void podsMeetByASharedFile() throws IOException {
        List<KcpProcess.Result> results = ranks(
                2,
                rank -> Map.of(
                        "JOB_COMPLETION_INDEX",
                        "" + rank,
                        "WORLD_SIZE",
                        "2",
                        "KCP_RENDEZVOUS_FILE",
                        folder.resolve("meet").toString()),
                conv("many", "--align", "64"));
        assertSameAsOneProcess(results, "Kubernetes (JOB_COMPLETION_INDEX, WORLD_SIZE)");
        assertThat(folder.resolve("meet")).doesNotExist();
    }

    @Test
    void incompleteSetIsRefusedInOneLineBeforeAnyEffect() {
        List<KcpProcess.Result> results = ranks(1, rank -> Map.of("SLURM_PROCID", "1"), conv("many"));
        assertThat(results.getFirst().exitCode()).isEqualTo(2);
        assertThat(results.getFirst().err()).hasLineCount(1).endsWith("SLURM_PROCID=1 SLURM_NTASKS=null\n");
        assertThat(folder.resolve("many")).doesNotExist();
    }

    /** Cases 84 and 85: a given port that is taken is named with its host. */
    @Test
    void busyMasterPortIsNamed() throws IOException {
        try (ServerSocket busy = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            Map<String, String> environment = new HashMap<>(Map.of("RANK", "0", "WORLD_SIZE", "2"));
            environment.put("MASTER_ADDR", "127.0.0.1");
            environment.put("MASTER_PORT", "" + busy.getLocalPort());
            KcpProcess.Result result =
                    ranks(1, rank -> environment, conv("many")).getFirst();
            assertThat(result.exitCode()).isEqualTo(4);
            assertThat(result.err()).contains("host=127.0.0.1 port=" + busy.getLocalPort());
        }
    }

    @Test
    void missingRankIsListedAtTheDeadline() {
        KcpProcess.Result result = ranks(
                        1,
                        rank -> Map.of(
                                "PMI_RANK", "0",
                                "PMI_SIZE", "2",
                                "KCP_RENDEZVOUS_FILE", folder.resolve("meet").toString()),
                        conv("many", "--deadline", "2"))
                .getFirst();
        assertThat(result.exitCode()).isEqualTo(4);
        assertThat(result.err()).contains("missingRanks=[1]");
    }
}
