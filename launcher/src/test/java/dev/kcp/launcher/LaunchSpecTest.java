package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LaunchSpecTest {
    @ParameterizedTest
    @ValueSource(ints = {0, -1, Integer.MIN_VALUE, LaunchSpec.MAX_RANKS + 1})
    void refusesRankCount(int ranks) {
        assertThatThrownBy(() -> LaunchSpec.program(ranks, List.of("true")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("n=" + ranks);
    }

    @Test
    void refusesVariablesThatTheLauncherSets() {
        LaunchSpec spec = LaunchSpec.program(1, List.of("true"));
        assertThatThrownBy(() -> spec.withEnvironment(Map.of("RANK", "7", "X", "1", "KCP_SECRET", "s")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("names=[KCP_SECRET, RANK]");
        assertThat(spec.withEnvironment(Map.of("X", "1")).environment()).containsExactly(Map.entry("X", "1"));
    }

    @Test
    void refusesEmptyCommandAndBadTimes() {
        assertThatThrownBy(() -> LaunchSpec.program(1, List.of())).isInstanceOf(IllegalArgumentException.class);
        LaunchSpec spec = LaunchSpec.program(1, List.of("true"));
        assertThatThrownBy(() -> spec.withGrace(Duration.ofSeconds(-1))).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> spec.withTimeout(Duration.ZERO)).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void everyRankOfAJobHasItsOwnNumberAndTheJobsNames() {
        JobEnvironment job = JobEnvironment.create(3, 29500);
        Map<String, String> second = job.of(1, 4711);
        assertThat(second)
                .containsEntry("RANK", "1")
                .containsEntry("LOCAL_RANK", "1")
                .containsEntry("WORLD_SIZE", "3")
                .containsEntry("LOCAL_WORLD_SIZE", "3")
                .containsEntry("MASTER_ADDR", "127.0.0.1")
                .containsEntry("KCP_STORE", "127.0.0.1:4711");
        assertThat(Integer.parseInt(second.get("MASTER_PORT"))).isBetween(1, 65535);
        assertThat(JobEnvironment.NAMES).containsAll(second.keySet());
        assertThat(job.of(2, 4711).get("KCP_SECRET"))
                .isEqualTo(second.get("KCP_SECRET"))
                .hasSize(32);
        assertThat(JobEnvironment.create(3, 29500).secret()).isNotEqualTo(job.secret());
        assertThat(job.toString()).doesNotContain(job.secret());
    }

    @Test
    void workersInheritFlagsButNotWhatOnlyOneJvmCanHave() {
        assertThat(WorkerCommand.flags(List.of(
                        "-Xmx1g",
                        "-Djava.io.tmpdir=/shared",
                        "-XX:ErrorFile=x",
                        "-agentlib:jdwp=transport=dt_socket,address=5005",
                        "--add-modules=jdk.incubator.vector")))
                .containsExactly(
                        "-Xmx1g",
                        "--add-modules=jdk.incubator.vector",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Dorg.bytedeco.javacpp.maxPhysicalBytes=0");
    }

    @Test
    void workerCommandHasAFolderOfItsOwnAndTheArgumentsLast() {
        List<String> command =
                WorkerCommand.ofThisJvm(List.of("train", "--data", "a b")).forRank(3, Path.of("/scratch/rank-3"));
        assertThat(command)
                .contains("-Djava.io.tmpdir=/scratch/rank-3", "--add-modules=jdk.incubator.vector")
                .endsWith("dev.kcp.launcher.Main", "train", "--data", "a b");
        assertThat(command).anyMatch(word -> word.startsWith("-XX:ErrorFile=/") && word.contains("rank3"));
        assertThat(Path.of(command.getFirst())).isAbsolute().isExecutable();
    }
}
