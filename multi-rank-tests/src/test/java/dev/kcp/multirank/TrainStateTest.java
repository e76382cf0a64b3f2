package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Saved states of {@code kcp train}, with real processes and real signals. */
class TrainStateTest {
    @TempDir
    Path folder;

    @Test
    void runKilledThreeTimesOnOneTwoOrThreeRanksEndsWithTheBitsOfTheUnbrokenOne() throws IOException {
        KillRuns.Outcome outcome = new KillRuns(folder, 32, 3).run(3);
        assertThat(outcome.kills()).hasSize(3);
        // The run may have made a step more between the look and the kill.
        assertThat(outcome.kills()).allMatch(kill -> kill.resumedFrom() >= kill.step() - KillRuns.EVERY);
        assertThat(outcome.unbrokenLosses()).hasSize(32).doesNotHaveDuplicates();
        assertThat(outcome.losses()).isEqualTo(outcome.unbrokenLosses());
        assertThat(outcome.tensors()).isEqualTo(3 * (2 + 5));
        assertThat(outcome.differingTensors()).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void sigtermSavesTheStateAndEndsWith143(int world) throws IOException {
        Path text = Files.writeString(folder.resolve("text.txt"), "one rank sends\nrows to the next\n\n".repeat(50));
        Path states = folder.resolve("states");
        SavingRun saving = new SavingRun(text, states, 256, 1_000_000, 1_000_000);
        for (int run = 0; run < 2; run++) {
            try (KcpProcess kcp = saving.start(world)) {
                Eventually.reach(
                        "the first step",
                        () -> kcp.err().contains("kcp: ") && kcp.out().contains("step ") || !kcp.isAlive());
                assertThat(ProcessHandle.of(kcp.pid()).orElseThrow().destroy()).isTrue();
                KcpProcess.Result result = kcp.await();
                assertThat(result.exitCode()).as(result.err()).isEqualTo(143);
                assertThat(result.err()).contains(run == 0 ? "starts anew" : "goes on from ");
                Eventually.atMost("processes left", 0, () -> kcp.processes().size());
            }
            try (var saved = Files.list(states)) {
                assertThat(saved.filter(file -> file.toString().endsWith(".safetensors")))
                        .hasSize(run + 1);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void sigtermToOneOfTwoRanksSavesTheStateEndsWith143AndNamesThatRank(int rank) throws IOException {
        Path text = Files.writeString(folder.resolve("text.txt"), "one rank sends\nrows to the next\n\n".repeat(50));
        Path states = folder.resolve("states");
        String java = ProcessHandle.current().info().command().orElseThrow();
        try (KcpProcess kcp = new SavingRun(text, states, 256, 1_000_000, 1_000_000).start(2)) {
            Eventually.reach("the first step", () -> kcp.out().contains("step ") || !kcp.isAlive());
            long pid = kcp.processes().stream()
                    .filter(found -> found.isRank(rank) && found.command().startsWith(java))
                    .findFirst()
                    .orElseThrow()
                    .pid();
            assertThat(ProcessHandle.of(pid).orElseThrow().destroy()).isTrue();
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).as(result.err()).isEqualTo(143);
            assertThat(result.err())
                    .contains("kcp: rank " + rank + " was ended by SIGTERM (signal 15) after ")
                    .contains(" pid=" + pid + "\n")
                    .contains("kcp:   rank " + (1 - rank) + " exited with code 5\n");
        }
        try (var saved = Files.list(states)) {
            assertThat(saved.filter(file -> file.toString().endsWith(".safetensors")))
                    .hasSize(1);
        }
    }
}
