package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.conv.Eventually;
import dev.kcp.multirank.KcpShell.Result;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A run as the first process of a container: a read-only root but for a temporary folder. */
@Execution(ExecutionMode.CONCURRENT)
class ContainerTest {
    private static final String NAMESPACES = "unshare --user --map-root-user --mount --pid --fork --mount-proc ";
    private static final String ROOM = "mount --bind tmp tmp && mount -o remount,bind,ro /";
    private static final String TRAIN =
            "\"$KCP\" train --data text.txt --steps 1000000 --layers 1 --channels 8 --tokens 16 --world 2 ";

    @TempDir
    private Path folder;

    /** The user who is unknown and has no home, and the one whose home is read-only. */
    @ParameterizedTest
    @CsvSource({
        "unshare --user --map-user=54321 env -u HOME, rank 1, KILL, 5",
        "env HOME=/root, the launcher, TERM, 143",
    })
    void ranksTrainAndAreKilledAndLeaveNothing(String user, String whom, String signal, int code) throws Exception {
        try (KcpShell shell = new KcpShell(folder)) {
            assumeTrue(
                    shell.run(NAMESPACES + "sh -c '" + ROOM + " && " + user + " true'")
                                    .exitCode()
                            == 0,
                    "namespaces are forbidden");
            // Nothing but the JVM is left of the words that lead to it: it is process 1.
            Process container = shell.start(NAMESPACES + "sh -c '" + ROOM + " && exec " + user + " " + TRAIN + "'");
            Eventually.reach("both ranks train", () -> isTraining(shell) || !container.isAlive());
            assertThat(container.isAlive()).as(shell.err()).isTrue();
            long pid = shell.processes().stream()
                    .filter(found -> whom.equals("rank 1") ? found.isRank(1) : isLauncher(found))
                    .toList()
                    .getLast()
                    .pid();
            new ProcessBuilder("kill", "-s", signal, "" + pid).start().waitFor();
            Result result = shell.await(container);
            assertThat(result.exitCode()).as(result.err()).isEqualTo(code);
            Eventually.atMost("processes left", 0, () -> shell.processes().size());
            try (Stream<Path> left = Files.list(folder.resolve("tmp"))) {
                assertThat(left.map(path -> path.getFileName().toString()))
                        .as("but for unpacked libraries, which the next run needs")
                        .allMatch(name -> name.startsWith("kcp-home-") || name.startsWith(".javacpp"));
            }
        }
    }

    private static boolean isTraining(KcpShell shell) {
        try {
            return shell.out().contains("step 1/");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean isLauncher(LiveProcesses.Found found) {
        return found.rank().isEmpty() && found.command().contains("dev.kcp.launcher.Main train");
    }
}
