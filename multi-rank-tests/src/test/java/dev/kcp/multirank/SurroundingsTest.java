package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Every command once in each of the odd surroundings that people have, started by the {@code kcp} script. */
@Timeout(120)
class SurroundingsTest {
    /** The shortest form of each command; run as a shell reads it, in a folder that holds text.txt. */
    private static final List<String> COMMANDS = List.of(
            "--help",
            "train --data text.txt --steps 1 --layers 1 --channels 8 --tokens 16",
            "conv --compare \"$ROOT\"/docs/example.safetensors \"$ROOT\"/docs/example.safetensors",
            "run -n 1 -- echo ran",
            "plan --lengths 5,11",
            "bench forward --shapes 64x8x1 --iterations 1",
            "doctor",
            "completion bash");

    /** A shell line in which KCP is the command, and what it ends with. */
    private enum Surroundings {
        /** A JVM that reads any of these does not start beside the flags of kcp, or not at all. */
        OPTIONS_FOR_OTHER_JVMS(
                "JAVA_TOOL_OPTIONS=-XX:+UseG1GC JDK_JAVA_OPTIONS=-agentlib:none _JAVA_OPTIONS='-Xms1g -Xmx2m' KCP", 0),
        /** In a folder whose name is no UTF-8. */
        POSIX_LOCALE(
                "d=$(printf 'caf\\351'); mkdir \"$d\"; cp text.txt \"$d\"; cd \"$d\"; unset LANG LC_CTYPE; export LC_ALL=C; KCP",
                0),
        DUMB_TERMINAL("TERM=dumb script -qec 'KCP' /dev/null </dev/null", 0),
        NO_COLOR("TERM=xterm NO_COLOR=1 script -qec 'KCP' /dev/null </dev/null", 0),
        USER_WITHOUT_A_HOME("unshare --user --map-user=54321 env -u HOME sh -c 'KCP'", 0),
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

    private record Result(int exitCode, String out, String err) {}

    @BeforeEach
    void writeText() throws IOException {
        Files.writeString(folder.resolve("text.txt"), "a text of a few words\n\nand another one\n");
    }

    private Result shell(String line) throws Exception {
        ProcessBuilder builder = new ProcessBuilder("/bin/bash", "-c", line).directory(folder.toFile());
        Path root = Path.of(System.getProperty("kcp.root"));
        builder.environment().keySet().removeIf(name -> name.startsWith("KCP_"));
        builder.environment().put("ROOT", root.toString());
        builder.environment().put("KCP", root.resolve("kcp").toString());
        builder.environment().put("KCP_CLASSPATH", System.getProperty("java.class.path"));
        builder.environment().put("KCP_JDK", System.getProperty("java.home"));
        builder.environment()
                .put("TMPDIR", Files.createDirectories(folder.resolve("tmp")).toString());
        String tag = UUID.randomUUID().toString();
        builder.environment().put(LiveProcesses.TAG, tag);
        Path out = folder.resolve("stdout");
        Path err = folder.resolve("stderr");
        Process process =
                builder.redirectOutput(out.toFile()).redirectError(err.toFile()).start();
        try {
            assertThat(process.waitFor(60, TimeUnit.SECONDS)).as(line).isTrue();
            return new Result(
                    process.exitValue(),
                    Files.readString(out, StandardCharsets.ISO_8859_1),
                    Files.readString(err, StandardCharsets.ISO_8859_1)
                            .replaceFirst("WARNING: Using incubator modules: .*\n", ""));
        } finally {
            LiveProcesses.tagged(tag)
                    .forEach(found -> ProcessHandle.of(found.pid()).ifPresent(ProcessHandle::destroyForcibly));
        }
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
            assumeTrue(
                    shell("unshare --user --map-user=54321 true").exitCode() == 0, "namespaces of users are forbidden");
        }
        Result result = shell(surroundings.line.replace("KCP", "\"$KCP\" " + command));
        String all = result.out() + result.err();
        assertThat(result.exitCode()).as(all).isEqualTo(surroundings.exitCode);
        assertThat(all).doesNotContain("Picked up", "\033[", "\tat ");
        if (surroundings.exitCode == 0) {
            assertThat(result.out()).isNotBlank();
            assertThat(result.err()).doesNotContain("kcp: ");
        }
        // A home that Java calls "?" became a folder of that name.
        try (Stream<Path> made = Files.list(folder)) {
            assertThat(made.map(path -> path.getFileName().toString())).doesNotContain("?");
        }
    }

    @Test
    void programsGetTheBytesAndVariablesThatTheUserGave() throws Exception {
        Result result =
                shell("export LC_ALL=C JAVA_TOOL_OPTIONS=-Dx=y; export FOO=\"$(printf 'caf\\351 \\303\\251')\"; "
                        + "\"$KCP\" run -n 1 -- sh -c 'printf %s \"$1|$2|$3|$FOO|$LC_ALL|$JAVA_TOOL_OPTIONS|${KCP_GIVEN_LC_ALL-none}\"' "
                        + "x \"$(printf '\\303\\251')\" \"$(printf '%%b\\351\\n\\047\\n.')\" plain");
        assertThat(result.exitCode()).as(result.err()).isZero();
        assertThat(result.out())
                .isEqualTo("[rank 0] \u00c3\u00a9|%b\u00e9\n[rank 0] '\n[rank 0] .|plain|"
                        + "caf\u00e9 \u00c3\u00a9|C|-Dx=y|none\n");
    }

    @Test
    void variableThatWasNotSetIsNotSetForPrograms() throws Exception {
        Result result = shell("unset LC_ALL; \"$KCP\" run -n 1 -- sh -c 'echo \"${LC_ALL-unset}\"'");
        assertThat(result.out()).isEqualTo("[rank 0] unset\n");
    }

    /** One port serves one JVM: ranks that listen there too would not start. */
    @Test
    void debugAgentForOtherJvmsIsNotGivenToRanks() throws Exception {
        Result result = shell("JAVA_TOOL_OPTIONS=-agentlib:none \"$KCP\" train --data text.txt --steps 1 --layers 1 "
                + "--channels 8 --tokens 16 --world 2");
        assertThat(result.exitCode()).as(result.err()).isZero();
        assertThat(result.err()).doesNotContain("Picked up");
        assertThat(shell("JDK_JAVA_OPTIONS=-agentlib:none \"$KCP\" run -n 1 -- java:dev.kcp.launcher.Main --version")
                        .exitCode())
                .isZero();
    }

    @Test
    void ownFilesWithOtherLettersAreTheOnesThatWereNamed() throws Exception {
        Result result = shell("export LC_ALL=C; mkdir \"$(printf '\\303\\274')\"; cd \"$(printf '\\303\\274')\"; "
                + "cp ../text.txt \"$(printf '\\303\\251.txt')\"; \"$KCP\" train --data \"$(printf '\\303\\251.txt')\" "
                + "--steps 1 --layers 1 --channels 8 --tokens 16 --world 2 --save runs >&2; ls runs; ls -b ..");
        assertThat(result.out().lines())
                .as(result.err())
                .contains("state-00000001.safetensors", "\\303\\274")
                .noneMatch(name -> name.contains("?"));
    }

    @Test
    void ownArgumentThatIsNoTextIsRefused() throws Exception {
        for (String words : List.of("train --data", "conv --in", "run -n 1 --log-dir")) {
            Result result = shell("\"$KCP\" " + words + " \"$(printf 'caf\\351')\" -- x");
            assertThat(result.exitCode()).isEqualTo(2);
            assertThat(result.err()).isEqualTo("kcp: an argument is not UTF-8: argument=caf\\xe9\n");
        }
        assertThat(shell("KCP_RUN_LOG_DIR=$(printf 'caf\\351') \"$KCP\" run -n 1 -- true")
                        .exitCode())
                .isEqualTo(2);
    }
}
