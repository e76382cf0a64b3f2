package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A temporary folder without room, as a file system of its own in a namespace of its own. */
class FullFolderTest {
    private static final String MOUNT = "mount -t tmpfs -o size=1m none \"$0\" || exit 99; ";
    private static final String FILL = "head -c 2000000 /dev/zero >\"$0/fill\" 2>/dev/null; ";

    @TempDir
    Path folder;

    @BeforeAll
    static void needsNamespaces(@TempDir Path tried) throws Exception {
        assumeTrue(new ProcessBuilder(inNamespace(MOUNT, tried)).start().waitFor() == 0);
    }

    private static List<String> inNamespace(String script, Path folder) {
        return List.of("unshare", "--mount", "--map-root-user", "/bin/sh", "-c", script, folder.toString());
    }

    private KcpProcess.Result run(String before, String rank) throws IOException {
        try (KcpProcess kcp = KcpProcess.startThrough(
                inNamespace(MOUNT + before + "exec \"$@\"", folder),
                List.of("-Djava.io.tmpdir=" + folder, "-XX:-UsePerfData"),
                "run",
                "-n",
                "2",
                "--",
                "/bin/sh",
                "-c",
                rank,
                folder.toString())) {
            return kcp.await();
        }
    }

    @Test
    void fullFromTheStartIsSaidAndIsCode3() throws IOException {
        KcpProcess.Result result = run(FILL, "echo hi");
        assertThat(result.exitCode()).as(result.err()).isEqualTo(3);
        assertThat(result.err())
                .startsWith("kcp: the temporary folder cannot be written, No space left on device: java.io.tmpdir=");
        assertThat(result.out()).isEmpty();
    }

    @Test
    void filledWhileRanksRunHoldsNobodyAndLosesNoStatus() throws IOException {
        KcpProcess.Result result = run("", FILL + "exit 4");
        assertThat(result.exitCode()).as(result.err()).isEqualTo(5);
        assertThat(result.err()).contains(" exited with code 4");
    }
}
