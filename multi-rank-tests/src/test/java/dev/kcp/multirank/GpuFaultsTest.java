package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import dev.kcp.cuda.NeedsTwoGpus;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A rank of a training run on two GPUs is killed or stopped between any two of its instructions: steps follow each other
 * without a pause, as replays of one graph with its exchanges.
 */
@NeedsTwoGpus
class GpuFaultsTest {
    private static final int HANG_DEADLINE_SECONDS = 8;

    /** Device memory that comes and goes without any process of ours, as the driver's own does. */
    private static final long SLACK_MEGABYTES = 64;

    @TempDir
    private Path folder;

    private Path text;
    private List<Long> usedBefore;

    @BeforeEach
    void write() throws IOException {
        text = folder.resolve("text.txt");
        Files.writeString(text, "It was the best of times.\n\nIt was the worst of times, he said.\n\n".repeat(4000));
        usedBefore = megabytesInUse();
    }

    private KcpProcess train(int deadlineSeconds) {
        return KcpProcess.start(
                "train",
                "--data",
                text.toString(),
                "--device",
                "cuda",
                "--world",
                "2",
                "--steps",
                "100000",
                "--tokens",
                "16384",
                "--channels",
                "512",
                "--layers",
                "2",
                "--deadline",
                Integer.toString(deadlineSeconds));
    }

    /** The first three steps are not replays; after the first, a fortieth of the run goes by before the next is shown. */
    private static void awaitReplays(KcpProcess kcp) {
        Eventually.reach("step 2500", () -> kcp.out().contains("\nstep 2500/") || !kcp.isAlive());
        assertThat(kcp.out()).as(kcp.err()).contains("\nstep 2500/");
        assertThat(kcp.isAlive()).as(kcp.err()).isTrue();
    }

    private static long program(KcpProcess kcp, int rank) {
        List<LiveProcesses.Found> found = kcp.processes().stream()
                .filter(process -> process.isRank(rank))
                .filter(process -> !process.command().contains("kcp-guard"))
                .toList();
        assertThat(found).as("processes of rank " + rank).hasSize(1);
        return found.getFirst().pid();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void aKilledRankIsReportedBeforeTheDeadlineAndNoGpuMemoryIsHeld(int culprit) {
        try (KcpProcess kcp = train((int) Eventually.LIMIT.toSeconds())) {
            awaitReplays(kcp);
            List<Long> programs = List.of(program(kcp, 0), program(kcp, 1));
            assertThat(holdingMemory()).as("processes on the GPUs").containsAll(programs);
            long begin = System.nanoTime();
            signal("KILL", programs.get(culprit));
            KcpProcess.Result result = kcp.await();
            System.out.printf(
                    "rank %d of 2 killed on a GPU: reported and over after %.2f s%n",
                    culprit, (System.nanoTime() - begin) / 1e9);
            assertThat(result.exitCode()).as(result.err()).isEqualTo(5);
            assertThat(result.err())
                    .contains("kcp: rank " + culprit + " was ended by SIGKILL (signal 9)")
                    .contains(" pid=" + programs.get(culprit));
            assertThat(result.err().lines())
                    .as("what the other rank says")
                    .anyMatch(line ->
                            line.startsWith("[rank " + (1 - culprit) + "]") && line.contains("rank " + culprit));
            assertNothingIsLeft(kcp);
        }
    }

    @Test
    void aStoppedRankIsNamedAtTheDeadlineByTheOtherAndByNccl() {
        try (KcpProcess kcp = train(HANG_DEADLINE_SECONDS)) {
            awaitReplays(kcp);
            long stopped = program(kcp, 1);
            signal("STOP", stopped);
            KcpProcess.Result result = kcp.await();
            assertThat(result.exitCode()).as(result.err()).isEqualTo(6);
            assertThat(result.err())
                    .containsPattern("kcp: rank 0 exited with code 6")
                    .contains("silentRanks=[1]")
                    .containsPattern("rank 1 ended by kcp with SIG(TERM|KILL)")
                    .contains("what NCCL knows of its processes: rank=0")
                    .contains("Process " + stopped + " on node ");
            assertNothingIsLeft(kcp);
        }
    }

    private void assertNothingIsLeft(KcpProcess kcp) {
        Eventually.atMost("processes left", 0, () -> kcp.processes().size());
        Eventually.reach("no more megabytes in use than before: " + usedBefore, this::noMoreIsInUse);
    }

    private boolean noMoreIsInUse() {
        List<Long> now = megabytesInUse();
        for (int gpu = 0; gpu < now.size(); gpu++) {
            if (now.get(gpu) > usedBefore.get(gpu) + SLACK_MEGABYTES) {
                return false;
            }
        }
        return true;
    }

    private static List<Long> megabytesInUse() {
        return smi("--query-gpu=memory.used");
    }

    private static List<Long> holdingMemory() {
        return smi("--query-compute-apps=pid");
    }

    /** Numbers that the driver's own tool prints, a line each. */
    private static List<Long> smi(String query) {
        try {
            Process smi = new ProcessBuilder("nvidia-smi", query, "--format=csv,noheader,nounits")
                    .redirectErrorStream(true)
                    .start();
            String out = new String(smi.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
            assertThat(smi.waitFor()).as(out).isZero();
            return Arrays.stream(out.split("\n"))
                    .map(String::strip)
                    .filter(line -> !line.isEmpty())
                    .map(Long::valueOf)
                    .toList();
        } catch (IOException e) {
            throw new AssertionError("nvidia-smi comes with the driver", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    private static void signal(String name, long pid) {
        try {
            Process kill = new ProcessBuilder("/bin/sh", "-c", "kill -s " + name + " " + pid).start();
            assertThat(kill.waitFor()).as("kill -s " + name).isZero();
        } catch (IOException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }
}
