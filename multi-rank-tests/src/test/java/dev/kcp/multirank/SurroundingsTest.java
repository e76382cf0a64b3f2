package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.multirank.KcpShell.Result;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Every command once in each of the odd surroundings that people have, started by the {@code kcp} script. */
@Execution(ExecutionMode.CONCURRENT)
class SurroundingsTest {
    private static final String TRAIN = "train --data \"$TEXT\" --steps 1 --layers 1 --channels 8 --tokens 16";

    /** A short form of each command, with files where it takes some; a shell reads it. */
    private static final List<String> COMMANDS = List.of(
            "--help",
            TRAIN,
            "conv --in \"$ROOT\"/docs/example.safetensors --out \"$TEXT.conv\"",
            "run -n 1 --log-dir \"$TEXT.logs\" --tee -- cat \"$TEXT\"",
            "plan --lengths 5,11 --json \"$TEXT.plan\"",
            "bench forward --shapes 64x8x1 --iterations 1",
            "doctor",
            "completion");

    private static final String USER = "unshare --user --map-user=54321";
    private static final String NOEXEC = "unshare --user --map-root-user --mount";

    /** A shell line in which KCP is the command, and what it ends with. What cannot hide one another shares a line. */
    private enum Surroundings {
        /** A JVM that reads any of these does not start beside the flags of kcp, or not at all. */
        OPTIONS_FOR_OTHER_JVMS_AND_NO_COLOR(
                "export JAVA_TOOL_OPTIONS=-XX:+UseG1GC JDK_JAVA_OPTIONS=-agentlib:none _JAVA_OPTIONS='-Xms1g -Xmx2m'; "
                        + "TERM=xterm NO_COLOR=1 script -qec 'KCP' /dev/null </dev/null",
                0),
        /** In a folder whose name is no UTF-8, with files whose names are. */
        POSIX_LOCALE_AND_DUMB_TERMINAL(
                "d=$(printf 'caf\\351'); mkdir \"$d\"; cd \"$d\"; export TEXT=$(printf '\\303\\251'); "
                        + "cp ../text.txt $TEXT; unset LANG LC_CTYPE; LC_ALL=C TERM=dumb script -qec 'KCP' /dev/null </dev/null",
                0),
        USER_WITHOUT_A_HOME(USER + " env -u HOME sh -c 'KCP'", 0),
        FULL_DISK_BEHIND_STDOUT("KCP >/dev/full", 3),
        /** Starts when the reader has left for certain. */
        READER_GONE("{ (trap '' PIPE; while echo x; do :; done) 2>/dev/null; KCP; } | :; exit ${PIPESTATUS[0]}", 141);

        private final String line;
        private final int exitCode;

        Surroundings(String line, int exitCode) {
            this.line = line;
            this.exitCode = exitCode;
        }
    }

    @TempDir
    private Path folder;

    private KcpShell shell;

    @BeforeEach
    void open() throws IOException {
        shell = new KcpShell(folder);
    }

    @AfterEach
    void close() {
        shell.close();
    }

    private void assumeNamespaces(String unshare) throws Exception {
        assumeTrue(shell.run(unshare + " true").exitCode() == 0, "namespaces are forbidden: " + unshare);
    }

    static Stream<Arguments> everyCommandEverywhere() {
        List<Arguments> all = new ArrayList<>();
        for (Surroundings surroundings : Surroundings.values()) {
            COMMANDS.forEach(command -> all.add(Arguments.of(surroundings, command)));
        }
        return all.stream();
    }

    @ParameterizedTest
    @MethodSource
    void everyCommandEverywhere(Surroundings surroundings, String command) throws Exception {
        if (surroundings == Surroundings.USER_WITHOUT_A_HOME) {
            assumeNamespaces(USER);
        }
        Result result = shell.run(surroundings.line.replace("KCP", "\"$KCP\" " + command));
        String all = result.out() + result.err();
        assertThat(result.exitCode()).as(all).isEqualTo(surroundings.exitCode);
        assertThat(all).doesNotContain("Picked up", "\033[", "\tat ");
        if (surroundings.exitCode == 0) {
            assertThat(result.out()).isNotBlank().doesNotContain("kcp: ");
            assertThat(result.err()).doesNotContain("kcp: ");
        }
        // A home that Java calls "?" became a folder of that name.
        try (Stream<Path> made = Files.list(folder)) {
            assertThat(made.map(path -> path.getFileName().toString())).doesNotContain("?");
        }
    }

    @Test
    void folderMountedNoexecIsNamed() throws Exception {
        assumeNamespaces(NOEXEC);
        Result result =
                shell.run(NOEXEC + " sh -c 'mkdir no && mount -t tmpfs -o noexec none no && cp /bin/true no/prog && "
                        + "{ \"$KCP\" run -n 1 -- no/prog; PATH=no:$PATH \"$KCP\" run -n 1 -- prog; "
                        + "KCP_JAVA_OPTS=\"$KCP_JAVA_OPTS -Duser.home=$PWD/no\" \"$KCP\" " + TRAIN + "; }'");
        assertThat(result.exitCode()).as(result.err()).isEqualTo(8);
        assertThat(result.err().lines())
                .hasSize(3)
                .startsWith(
                        "kcp: the program's folder is mounted noexec: program=no/prog",
                        "kcp: the program's folder is mounted noexec: program=no/prog");
        assertThat(result.err())
                .endsWith("it is unpacked into a folder that is mounted noexec: folder=" + folder
                        + "/no/.javacpp/cache\n");
    }

    @Test
    void programsGetTheBytesAndVariablesThatTheUserGave() throws Exception {
        Result result =
                shell.run("export LC_ALL=C JAVA_TOOL_OPTIONS=-Dx=y; export FOO=\"$(printf 'caf\\351 \\303\\251')\"; "
                        + "\"$KCP\" run -n 1 -- sh -c 'printf %s \"$1|$2|$3|$FOO|$LC_ALL|$JAVA_TOOL_OPTIONS|${KCP_GIVEN_LC_ALL-none}\"' "
                        + "x \"$(printf '\\303\\251')\" \"$(printf '%%b\\351\\n\\047\\n.')\" plain");
        assertThat(result.exitCode()).as(result.err()).isZero();
        assertThat(result.out())
                .isEqualTo("[rank 0] \u00c3\u00a9|%b\u00e9\n[rank 0] '\n[rank 0] .|plain|"
                        + "caf\u00e9 \u00c3\u00a9|C|-Dx=y|none\n");
    }

    @Test
    void variableThatWasNotSetIsNotSetForPrograms() throws Exception {
        Result result = shell.run("unset LC_ALL; \"$KCP\" run -n 1 -- sh -c 'echo \"${LC_ALL-unset}\"'");
        assertThat(result.out()).isEqualTo("[rank 0] unset\n");
    }

    /** One port serves one JVM: ranks that listen there too would not start. */
    @Test
    void debugAgentForOneJvmIsNotGivenToRanks() throws Exception {
        Result result =
                shell.run("KCP_JAVA_OPTS=\"$KCP_JAVA_OPTS -agentlib:jdwp=transport=dt_socket,server=y,suspend=n,"
                        + "address=127.0.0.1:0\" JAVA_TOOL_OPTIONS=-agentlib:none \"$KCP\" " + TRAIN + " --world 2");
        assertThat(result.exitCode()).as(result.err()).isZero();
        assertThat(result.out() + result.err())
                .containsOnlyOnce("Listening for transport dt_socket")
                .doesNotContain("Picked up");
        assertThat(shell.run(
                                "JDK_JAVA_OPTIONS=-agentlib:none \"$KCP\" run -n 1 -- java:dev.kcp.launcher.Main --version")
                        .exitCode())
                .isZero();
    }

    @Test
    void ownFilesWithOtherLettersAreTheOnesThatWereNamed() throws Exception {
        Result result = shell.run("export LC_ALL=C; mkdir \"$(printf '\\303\\274')\"; cd \"$(printf '\\303\\274')\"; "
                + "cp ../text.txt \"$(printf '\\303\\251.txt')\"; \"$KCP\" "
                + TRAIN.replace("$TEXT", "$(printf '\\303\\251.txt')")
                + " --world 2 --save runs >&2; ls runs; ls -b ..");
        assertThat(result.out().lines())
                .as(result.err())
                .contains("state-00000001.safetensors", "\\303\\274")
                .noneMatch(name -> name.contains("?"));
    }

    @Test
    void ownArgumentThatIsNoTextIsRefused() throws Exception {
        for (String words : List.of("train --data", "conv --in", "run -n 1 --log-dir")) {
            Result result = shell.run("\"$KCP\" " + words + " \"$(printf 'caf\\351')\" -- x");
            assertThat(result.exitCode()).isEqualTo(2);
            assertThat(result.err()).isEqualTo("kcp: an argument is not UTF-8: argument=caf\\xe9\n");
        }
        for (String name : List.of("KCP_RUN_LOG_DIR", "TMPDIR")) {
            Result result = shell.run(name + "=$(printf 'caf\\351') \"$KCP\" run -n 1 -- true");
            assertThat(result.exitCode()).isEqualTo(2);
            assertThat(result.err()).contains(": a variable is not UTF-8: name=" + name + " value=caf");
        }
    }
}
