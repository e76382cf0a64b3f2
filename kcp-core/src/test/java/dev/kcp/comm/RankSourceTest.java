package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Which launcher's variables count, as they were seen under the real launchers. */
class RankSourceTest {
    private static final Map<String, String> OPENMPI = Map.of(
            "OMPI_COMM_WORLD_RANK", "2",
            "OMPI_COMM_WORLD_SIZE", "3",
            "OMPI_COMM_WORLD_LOCAL_RANK", "2",
            "OMPI_COMM_WORLD_LOCAL_SIZE", "3",
            "PMIX_RANK", "2",
            "PMIX_NAMESPACE", "2314993665");
    private static final Map<String, String> HYDRA =
            Map.of("PMI_RANK", "1", "PMI_SIZE", "4", "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2");
    private static final Map<String, String> SLURM = Map.of(
            "SLURM_JOB_ID", "12",
            "SLURM_STEP_ID", "3",
            "SLURM_PROCID", "4",
            "SLURM_NTASKS", "9",
            "SLURM_STEP_NUM_TASKS", "5",
            "SLURM_LOCALID", "1",
            "SLURM_NODEID", "2",
            "SLURM_STEP_TASKS_PER_NODE", "1(x2),3");
    private static final Map<String, String> BATCH_SHELL =
            Map.of("SLURM_JOB_ID", "12", "SLURM_PROCID", "0", "SLURM_NTASKS", "9", "SLURM_LOCALID", "0");
    private static final Map<String, String> POD = Map.of("JOB_COMPLETION_INDEX", "1", "WORLD_SIZE", "2");
    private static final Map<String, String> MASTER = Map.of("MASTER_ADDR", "node0", "MASTER_PORT", "29500");
    private static final Map<String, String> TORCHRUN =
            Map.of("RANK", "6", "WORLD_SIZE", "8", "LOCAL_RANK", "2", "LOCAL_WORLD_SIZE", "4");

    @SafeVarargs
    private static Map<String, String> all(Map<String, String>... sets) {
        Map<String, String> env = new HashMap<>();
        for (Map<String, String> set : sets) {
            env.putAll(set);
        }
        return env;
    }

    static Stream<Arguments> places() {
        return Stream.of(
                Arguments.of(all(OPENMPI, MASTER), 2, 3, 2, 3),
                Arguments.of(all(HYDRA, MASTER), 1, 4, 1, 2),
                Arguments.of(all(SLURM, MASTER), 4, 5, 1, 3),
                Arguments.of(all(POD, MASTER), 1, 2, 0, 1),
                Arguments.of(all(TORCHRUN, MASTER), 6, 8, 2, 4),
                Arguments.of(all(Map.of("PMIX_RANK", "1", "WORLD_SIZE", "2"), MASTER), 1, 2, 1, 2),
                // mpirun inside a batch job, in a pod, and kcp run inside mpirun
                Arguments.of(all(BATCH_SHELL, OPENMPI, MASTER), 2, 3, 2, 3),
                Arguments.of(all(SLURM, OPENMPI, MASTER), 2, 3, 2, 3),
                Arguments.of(all(POD, OPENMPI, MASTER), 2, 3, 2, 3),
                Arguments.of(all(SLURM, OPENMPI, TORCHRUN, MASTER), 6, 8, 2, 4),
                Arguments.of(all(SLURM, OPENMPI, MASTER, Map.of("KCP_LAUNCHER", "slurm")), 4, 5, 1, 3));
    }

    @ParameterizedTest
    @MethodSource("places")
    void innermostLauncherCounts(Map<String, String> env, int rank, int size, int localRank, int localSize) {
        assertThat(RankInfo.fromEnvironment(env))
                .hasValue(new RankInfo(rank, localRank, size, localSize, "node0", 29500, null, "", ""));
    }

    @Test
    void describesTheWinnerAndWhatWasSetAside() {
        assertThat(RankInfo.describeLauncher(all(SLURM, OPENMPI, MASTER)))
                .hasValue("3 ranks started by Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE); set aside: "
                        + "SLURM_PROCID=4");
        assertThat(RankInfo.describeLauncher(all(SLURM, MASTER)))
                .hasValue("5 ranks started by Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS)");
        assertThat(RankInfo.describeLauncher(all(TORCHRUN, MASTER, Map.of("KCP_STORE", "h:1"))))
                .isEmpty();
        assertThat(RankInfo.describeLauncher(Map.of())).isEmpty();
    }

    @Test
    void shellOfABatchJobIsNoRank() {
        assertThat(RankInfo.fromEnvironment(BATCH_SHELL)).isEmpty();
    }

    @Test
    void jobOfOneProcessIsNoJob() {
        assertThat(RankInfo.fromEnvironment(Map.of("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1")))
                .isEmpty();
        assertThat(RankInfo.fromEnvironment(Map.of("SLURM_PROCID", "0", "SLURM_NTASKS", "1")))
                .isEmpty();
    }

    @Test
    void userMayDenyALauncher() {
        assertThat(RankInfo.fromEnvironment(all(OPENMPI, Map.of("KCP_LAUNCHER", "none"))))
                .isEmpty();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RankInfo.fromEnvironment(all(OPENMPI, Map.of("KCP_LAUNCHER", "slurm"))))
                .withMessageEndingWith("KCP_LAUNCHER=slurm SLURM_PROCID=null");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RankInfo.fromEnvironment(Map.of("KCP_LAUNCHER", "lsf")))
                .withMessageEndingWith("KCP_LAUNCHER=lsf");
    }

    @ParameterizedTest
    @CsvSource({
        "RANK, WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE",
        "PMI_RANK, PMI_SIZE",
        "SLURM_PROCID, SLURM_NTASKS",
        "PMIX_RANK, WORLD_SIZE",
        "JOB_COMPLETION_INDEX, WORLD_SIZE"
    })
    void rankAloneIsToldWhatToSet(String rank, String worldSize) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RankInfo.fromEnvironment(Map.of(rank, "0")))
                .withMessageContaining(
                        "set " + worldSize + ", or KCP_LAUNCHER=none where this process is no rank: " + rank + "=0");
    }

    static Stream<Arguments> impossible() {
        return Stream.of(
                Arguments.of(Map.of("OMPI_COMM_WORLD_RANK", "1"), "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=null"),
                Arguments.of(
                        Map.of("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "3"),
                        "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=3"),
                Arguments.of(Map.of("PMI_RANK", "x", "PMI_SIZE", "3"), "PMI_RANK=x"),
                Arguments.of(Map.of("PMIX_RANK", "1"), "PMIX_RANK=1 WORLD_SIZE=null"),
                Arguments.of(Map.of("SLURM_PROCID", "2"), "SLURM_PROCID=2 SLURM_NTASKS=null"),
                Arguments.of(
                        Map.of("SLURM_PROCID", "0", "SLURM_NTASKS", "2", "SLURM_LOCALID", "2"),
                        "SLURM_LOCALID=2 ranks of this node=2 SLURM_NTASKS=2"),
                Arguments.of(all(SLURM, Map.of("SLURM_NODEID", "3")), "SLURM_STEP_TASKS_PER_NODE=1(x2),3"),
                Arguments.of(all(SLURM, Map.of("SLURM_STEP_TASKS_PER_NODE", "2(y)")), "SLURM_STEP_TASKS_PER_NODE=2(y)"),
                Arguments.of(Map.of("JOB_COMPLETION_INDEX", "1"), "JOB_COMPLETION_INDEX=1 WORLD_SIZE=null"),
                Arguments.of(POD, "MASTER_ADDR=null MASTER_PORT=0"),
                Arguments.of(SLURM, "KCP_RENDEZVOUS_FILE: MASTER_ADDR=null MASTER_PORT=0"),
                Arguments.of(all(OPENMPI, Map.of("MASTER_ADDR", "node0")), "MASTER_ADDR=node0 MASTER_PORT=0"),
                Arguments.of(all(OPENMPI, Map.of("KCP_RENDEZVOUS_FILE", "a/b")), "KCP_RENDEZVOUS_FILE=a/b"));
    }

    @ParameterizedTest
    @MethodSource("impossible")
    void incompleteAndImpossibleSetsAreRefusedByName(Map<String, String> env, String end) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RankInfo.fromEnvironment(env))
                .withMessageEndingWith(end);
    }

    @Test
    void ranksOfOneHostMeetByAFileNamedAfterTheirJob() {
        RankInfo mpi = RankInfo.fromEnvironment(OPENMPI).orElseThrow();
        assertThat(mpi.file().oneHost()).isTrue();
        assertThat(mpi.file().path()).isAbsolute().hasFileName("openmpi-2314993665");
        Map<String, String> oneNode = all(SLURM, Map.of("SLURM_STEP_TASKS_PER_NODE", "5", "SLURM_NODEID", "0"));
        assertThat(RankInfo.fromEnvironment(oneNode).orElseThrow().file().path())
                .hasFileName("slurm-12.3");
        Map<String, String> hydra = all(HYDRA, Map.of("MPI_LOCALNRANKS", "4"));
        assertThat(RankInfo.fromEnvironment(hydra).orElseThrow().file().path().getFileName())
                .asString()
                .matches("pmi-\\d+-\\d+");
    }

    @Test
    void portThatTorchrunHoldsIsNotUsed() {
        Map<String, String> held = all(TORCHRUN, MASTER, Map.of("TORCHELASTIC_USE_AGENT_STORE", "True"));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RankInfo.fromEnvironment(held))
                .withMessageEndingWith("TORCHELASTIC_USE_AGENT_STORE=True MASTER_PORT=29500");
        held.put("LOCAL_WORLD_SIZE", "8");
        held.put("TORCHELASTIC_RUN_ID", "a/b");
        held.put("TORCHELASTIC_RESTART_COUNT", "1");
        assertThat(RankInfo.fromEnvironment(held).orElseThrow().file().path()).hasFileName("torchrun-a_b-29500-1");
        held.put("TORCHELASTIC_USE_AGENT_STORE", "False");
        assertThat(RankInfo.fromEnvironment(held).orElseThrow().meetingPlace())
                .isEqualTo(new HostAndPort("node0", 29500));
    }

    @Test
    void fileOfTheUserCountsAndAStoreCountsMore() {
        Map<String, String> env = all(POD, Map.of("KCP_RENDEZVOUS_FILE", "/shared/job"));
        RankInfo me = RankInfo.fromEnvironment(env).orElseThrow();
        assertThat(me.file().oneHost()).isFalse();
        assertThat(me.meetingPlace()).isNull();
        assertThat(me.toString()).contains("meetingPlace=/shared/job");
        env.put("KCP_STORE", "host:77");
        assertThat(RankInfo.fromEnvironment(env).orElseThrow().meetingPlace()).isEqualTo(new HostAndPort("host", 77));
    }

    @ParameterizedTest
    @CsvSource({"3, 0, 3", "'4(x2),3', 1, 4", "'4(x2),3', 2, 3", "'1,2(x3)', 3, 2"})
    void tasksOfANodeAreReadFromSlurmsList(String list, String node, int tasks) {
        assertThat(SlurmTasks.onThisNode(Map.of("SLURM_TASKS_PER_NODE", list, "SLURM_NODEID", node)))
                .hasValue(tasks);
    }
}
