package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** What {@code kcp run} makes of its options, seen through --dry-run. */
class RunOptionsTest {
    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    private int kcp(Map<String, String> environment, String... args) {
        CommandLine kcp = Main.commandLine(environment);
        kcp.setOut(new PrintWriter(out, true));
        kcp.setErr(new PrintWriter(err, true));
        return Main.run(kcp, args);
    }

    private String dryRun(Map<String, String> environment, String... options) {
        List<String> args = new ArrayList<>(List.of("run", "--dry-run"));
        args.addAll(List.of(options));
        assertThat(kcp(environment, args.toArray(String[]::new)))
                .as(err.toString())
                .isZero();
        assertThat(err.toString()).isEmpty();
        return out.toString();
    }

    @Test
    void dryRunShowsMapVariablesAndCommandAndStartsNothing(@TempDir Path folder) {
        Path touched = folder.resolve("touched");
        String shown = dryRun(
                Map.of("PATH", "/usr/bin:/bin"),
                "-n",
                "2",
                "--env",
                "X=a b",
                "--log-dir",
                folder + "/logs",
                "--grace",
                "2.5",
                "--",
                "touch",
                touched.toString());
        assertThat(shown.lines())
                .startsWith("ranks 2, host " + Host.name() + ", grace 2.5 s, timeout none, restarts 0")
                .contains(
                        "rank 0",
                        "  RANK=0",
                        "rank 1",
                        "  RANK=1",
                        "  LOCAL_RANK=1",
                        "  WORLD_SIZE=2",
                        "  X='a b'",
                        "  stderr > " + folder + "/logs/rank-1.err",
                        "  $ touch " + touched)
                .filteredOn(line -> line.contains("KCP_SECRET="))
                .containsOnly("  KCP_SECRET=(drawn at the start)");
        assertThat(touched).doesNotExist();
        assertThat(folder.resolve("logs")).doesNotExist();
    }

    @Test
    void everyOptionIsTakenFromTheEnvironmentWhereItIsNotGiven() {
        Map<String, String> environment = Map.of(
                "PATH", "/usr/bin:/bin",
                "KCP_RUN_RANKS", "3",
                "KCP_RUN_GRACE", "7",
                "KCP_RUN_TIMEOUT", "9",
                "KCP_RUN_MAX_RESTARTS", "4",
                "KCP_RUN_LOG_DIR", "/logs",
                "KCP_RUN_ENV", "A=1  B=2");
        assertThat(dryRun(environment, "--grace", "1", "--", "true").lines())
                .startsWith("ranks 3, host " + Host.name() + ", grace 1.0 s, timeout 9.0 s, restarts 4")
                .contains("  A=1", "  B=2", "  stdout > /logs/rank-2.out");
        assertThat(kcp(Map.of("KCP_RUN_RANKS", "three"), "run", "--", "true")).isEqualTo(2);
        assertThat(err.toString()).contains("n=three").hasLineCount(1);
    }

    @Test
    void optionsOfTheLauncherDoNotReachRanks() {
        assertThat(JobEnvironment.inherited(Map.of("KCP_RUN_TIMEOUT", "1", "KCP_LAUNCHER", "none", "X", "1")))
                .containsExactly(Map.entry("X", "1"));
    }

    @Test
    void javaClassGetsTheSettingsThatKcpNeeds() {
        String shown = dryRun(
                Map.of("PATH", "/usr/bin:/bin"),
                "-n",
                "2",
                "--jvm-arg",
                "-Xmx77m",
                "--class-path",
                "/app/a.jar",
                "--",
                "java:com.example.Train",
                "--steps",
                "9");
        assertThat(shown.lines().filter(line -> line.startsWith("  $ ")))
                .hasSize(2)
                .allMatch(line -> line.contains("/bin/java ")
                        && line.contains(" --add-modules=jdk.incubator.vector --enable-native-access=ALL-UNNAMED ")
                        && line.contains(" -Dorg.bytedeco.javacpp.maxPhysicalBytes=0 ")
                        && line.contains(" -Xmx77m -cp /app/a.jar:")
                        && line.endsWith(" com.example.Train --steps 9"))
                .anyMatch(line -> line.contains(" -Djava.io.tmpdir=/tmp/kcp-job/rank-1/tmp ")
                        && line.contains("/hs_err_pid%p_rank1.log"));
    }

    @Test
    void devicesAreHandedOnInTheirOrder() {
        Map<String, String> environment = Map.of("PATH", "/usr/bin:/bin");
        assertThat(dryRun(environment, "-n", "gpu", "--devices", "3,1", "--", "true"))
                .startsWith("ranks 2,")
                .contains("  CUDA_VISIBLE_DEVICES=3,1\n");
        assertThat(kcp(environment, "run", "-n", "3", "--devices", "3,GPU-ab-1", "--dry-run", "--", "true"))
                .isEqualTo(8);
        assertThat(err.toString()).contains("visible=2 wanted=3").hasLineCount(1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"1,1", "x", "", "-1", "0,,1", "GPU-"})
    void listOfDevicesIsChecked(String devices) {
        assertThatIllegalArgumentException().isThrownBy(() -> Gpus.parse(devices));
    }

    @ParameterizedTest
    @CsvSource({
        ", 2, 2",
        "'', 2, 0",
        "'1,0', 2, 2",
        "1, 2, 1",
        "'0,7,1', 2, 1",
        "'-1', 2, 0",
        "'GPU-1-2,MIG-3', 2, 2",
        "0, 0, 0"
    })
    void visibleGpusAreCountedAsTheDriverDoes(String visible, int present, int count) {
        assertThat(Gpus.visible(visible, present)).hasSize(count);
    }

    /** Case 90: the list counts, not the machine; rank 0 takes the first that is listed. */
    @Test
    void moreRanksThanListedDevicesAreRefusedAndTheOrderIsKept() {
        assertThatThrownBy(() -> Gpus.requireOneEach(Gpus.visible("1", 2), 2))
                .isInstanceOf(dev.kcp.KcpException.class)
                .hasMessageContaining("visible=1 wanted=2");
        assertThat(Gpus.visible("1,0", 2)).containsExactly("1", "0");
        // Case 91, without the GPU.
        assertThat(Gpus.visible("GPU-0f1e-2d", 2)).containsExactly("GPU-0f1e-2d");
    }

    @Test
    void gpuCountWithoutGpusIsRefused() {
        assertThat(kcp(Map.of("CUDA_VISIBLE_DEVICES", ""), "run", "-n", "gpu", "--", "true"))
                .isEqualTo(8);
        assertThat(err.toString()).contains("visible=0 wanted=1").hasLineCount(1);
    }

    @Test
    void autoCountsCoresWhereThereIsNoGpu() {
        assertThat(dryRun(Map.of("CUDA_VISIBLE_DEVICES", "", "PATH", "/usr/bin:/bin"), "-n", "auto", "--", "true"))
                .startsWith("ranks " + Runtime.getRuntime().availableProcessors() + ",");
    }

    @Test
    void numaWithoutNumactlIsRefused() {
        assertThat(kcp(Map.of("PATH", "/nowhere"), "run", "-n", "2", "--numa", "--", "true"))
                .isEqualTo(8);
        assertThat(err.toString()).contains("numactl").contains("PATH=/nowhere").hasLineCount(1);
    }

    @Test
    void numaBindsNeighboursToOneNode(@TempDir Path folder) throws Exception {
        Path numactl = Files.createFile(folder.resolve("numactl"));
        numactl.toFile().setExecutable(true);
        Numa machine = Numa.ofThisMachine(folder.toString());
        assertThat(machine.bind(List.of("./train", "-x"), 0, 2))
                .containsExactly(numactl.toString(), "--cpunodebind=0", "--preferred=0", "--", "./train", "-x");
        assertThat(Numa.node(List.of(0, 1, 4), 0, 6)).isZero();
        assertThat(Numa.node(List.of(0, 1, 4), 3, 6)).isEqualTo(1);
        assertThat(Numa.node(List.of(0, 1, 4), 5, 6)).isEqualTo(4);
    }

    @ParameterizedTest
    @CsvSource({
        "--tee, '', log-dir=none",
        "--filter-ranks, 5, filter-ranks=5 n=2",
        "--filter-ranks, 1-0, ranks=1-0",
        "--filter-ranks, a, ranks=a",
        "--max-restarts, -1, max-restarts=-1",
        "--jvm-arg, -Xmx1g, program=true",
        "--devices, 0;1, devices=0;1"
    })
    void wrongOptionsAreOneLine(String option, String value, String end) {
        List<String> args = new ArrayList<>(List.of("run", "-n", "2", option));
        if (!value.isEmpty()) {
            args.add(value);
        }
        args.addAll(List.of("--", "true"));
        assertThat(kcp(Map.of("PATH", "/usr/bin:/bin"), args.toArray(String[]::new)))
                .isEqualTo(2);
        assertThat(err.toString().strip()).endsWith(end).hasLineCount(1);
    }

    @Test
    void ranksAreListedAndRunsRead() {
        RankSet some = RankSet.parse("0,2-4");
        assertThat(java.util.stream.IntStream.range(0, 7).filter(some::contains))
                .containsExactly(0, 2, 3, 4);
        assertThat(some.meets(1)).isTrue();
        assertThat(RankSet.parse("3").meets(3)).isFalse();
    }

    @Test
    void completionKnowsCommandsAndOptions() {
        assertThat(kcp(Map.of(), "completion")).isZero();
        assertThat(out.toString())
                .contains("complete -F")
                .contains("--max-restarts")
                .contains("doctor");
        assertThat(Main.commandLine(Map.of(), "completion").getSubcommands()).containsKeys("run", "train");
        assertThat(Main.commandLine(Map.of(), "run", "train").getSubcommands()).containsOnlyKeys("run");
    }

    @Test
    void faultsAreRead() {
        assertThat(Injection.parse(List.of("kill@1:5", "SLOW@0:1"), 2, 5))
                .containsExactly(new Injection(Injection.Kind.KILL, 1, 5), new Injection(Injection.Kind.SLOW, 0, 1));
        for (String wrong : List.of("kill", "kill@2:5", "kill@0:6", "kill@0:0", "melt@0:1", "kill@-1:1", "")) {
            assertThatThrownBy(() -> Injection.parse(List.of(wrong), 2, 5))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("inject=" + wrong);
        }
    }

    @Test
    void doctorTellsWhatIsMissingForEachNeed() {
        List<Check> checks = List.of(
                new Check("jdk", Check.State.OK, "25", List.of(Check.Need.CPU)),
                new Check("shm", Check.State.NOTE, "small", List.of()),
                new Check("driver", Check.State.MISSING, "none", List.of(Check.Need.CUDA)),
                new Check("nccl", Check.State.MISSING, "none", List.of(Check.Need.NCCL)));
        assertThat(DoctorCommand.missing(checks, Check.Need.CPU)).isEmpty();
        assertThat(DoctorCommand.missing(checks, Check.Need.CUDA)).containsExactly("driver");
        assertThat(DoctorCommand.missing(checks, Check.Need.NCCL)).containsExactly("driver", "nccl");
        assertThat(DoctorCommand.table(checks).lines()).contains("driver   missing  none", "=> cuda  missing  driver");
        assertThat(DoctorCommand.json(checks)).startsWith("{\"ready\":{\"cpu\":true,\"cuda\":false,\"nccl\":false}");
    }

    @Test
    void doctorFindsThisMachineReadyForTheCpu() {
        Map<String, String> environment = Map.of("PATH", "/usr/bin:/bin", "LD_LIBRARY_PATH", "/nowhere");
        assertThat(kcp(environment, "doctor", "--json", "--need", "cpu"))
                .as(err.toString())
                .isZero();
        assertThat(out.toString())
                .contains("\"cpu\":true")
                .contains("\"openblas\"")
                .contains("/nowhere");
        assertThat(kcp(environment, "doctor", "--need", "tpu")).isEqualTo(2);
    }

    @Test
    void missingDriverIsOneLineAndCodeEight() {
        Map<String, String> none = Map.of("PATH", "/nowhere", "CUDA_VISIBLE_DEVICES", "");
        assertThat(kcp(none, "doctor", "--need", "cuda")).isEqualTo(8);
        assertThat(err.toString()).startsWith("kcp: missing for cuda: checks=[").hasLineCount(1);
    }
}
