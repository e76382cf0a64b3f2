package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.KcpException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class MainTest {
    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    @CommandLine.Command(name = "fail")
    private record Failing(Throwable failure) implements Callable<Integer> {
        @Override
        public Integer call() throws Exception {
            if (failure instanceof Error error) {
                throw error;
            }
            throw (Exception) failure;
        }
    }

    private int run(CommandLine kcp, String... args) {
        kcp.setOut(new PrintWriter(out, true));
        kcp.setErr(new PrintWriter(err, true));
        return Main.run(kcp, args);
    }

    private int run(String... args) {
        return run(Main.commandLine(Map.of()), args);
    }

    private int fail(Throwable failure, Map<String, String> environment, String... options) {
        CommandLine kcp = Main.commandLine(environment);
        kcp.addSubcommand(new Failing(failure));
        return run(kcp, Stream.concat(Stream.of("fail"), Stream.of(options)).toArray(String[]::new));
    }

    static Stream<Arguments> pathOptions() {
        return Main.commandLine(Map.of()).getSubcommands().entrySet().stream()
                .flatMap(command -> command.getValue().getCommandSpec().options().stream()
                        .filter(option -> option.type() == Path.class
                                || option.auxiliaryTypes()[0] == Path.class
                                || option.longestName().equals("--class-path"))
                        .map(option -> Arguments.of(
                                command.getKey(),
                                option.longestName(),
                                option.arity().min())));
    }

    @ParameterizedTest
    @MethodSource("pathOptions")
    void emptyPathOfAnUnsetVariableIsRefused(String command, String option, int values) {
        String[] words = Stream.concat(
                        Stream.of(command, option), Stream.generate(() -> "").limit(values))
                .toArray(String[]::new);
        assertThat(run(words)).isEqualTo(ExitCode.USAGE);
        assertThat(err.toString())
                .startsWith("kcp " + command + ": " + option + " is an empty path: " + option.substring(2) + "= (see ");
    }

    static Stream<Arguments> failures() {
        return Stream.of(
                Arguments.of(new IllegalArgumentException("bad: x=1"), 2, "kcp: bad: x=1"),
                Arguments.of(new KcpException(KcpException.Code.BAD_DATA, "cut"), 3, "kcp: cut"),
                Arguments.of(new KcpException(KcpException.Code.RENDEZVOUS, "alone"), 4, "kcp: alone"),
                Arguments.of(new KcpException(KcpException.Code.RANK_FAILED, "rank 1"), 5, "kcp: rank 1"),
                Arguments.of(new KcpException(KcpException.Code.DEADLINE, "late"), 6, "kcp: late"),
                Arguments.of(new KcpException(KcpException.Code.DISAGREEMENT, "a\n  b\n"), 7, "kcp: a | b"),
                Arguments.of(new KcpException(KcpException.Code.MISSING_DEVICE, "gpu"), 8, "kcp: gpu"),
                Arguments.of(new IllegalStateException("odd"), 1, "kcp: java.lang.IllegalStateException: odd"),
                Arguments.of(new IllegalArgumentException(), 2, "kcp: java.lang.IllegalArgumentException"),
                Arguments.of(new java.io.IOException("disk"), 1, "kcp: java.io.IOException: disk"),
                Arguments.of(
                        new UnsatisfiedLinkError("no x\nin y"), 1, "kcp: java.lang.UnsatisfiedLinkError: no x | in y"),
                Arguments.of(new OutOfMemoryError("Java heap space"), 1, "kcp: out of memory: Java heap space"));
    }

    @ParameterizedTest
    @MethodSource("failures")
    void failureIsOneLineAndItsCode(Throwable failure, int code, String line) {
        assertThat(fail(failure, Map.of())).isEqualTo(code);
        assertThat(err.toString()).isEqualTo(line + System.lineSeparator());
        assertThat(out.toString()).isEmpty();
    }

    @Test
    void stackTraceOnlyWhereAsked() {
        Throwable failure = new KcpException(KcpException.Code.BAD_DATA, "cut");
        assertThat(fail(failure, Map.of(), "--stack-traces")).isEqualTo(3);
        assertThat(err.toString()).startsWith("kcp: cut\n").contains("at dev.kcp.launcher.MainTest");
        err.getBuffer().setLength(0);
        assertThat(fail(failure, Map.of("KCP_STACK_TRACES", "1"))).isEqualTo(3);
        assertThat(err.toString()).contains("at dev.kcp.launcher.MainTest");
    }

    static Stream<List<String>> wrong() {
        return Stream.of(
                List.of("frobnicate"),
                List.of("--frobnicate"),
                List.of("run"),
                List.of("run", "-n"),
                List.of("run", "-n", "two", "--", "true"),
                List.of("run", "-n", "0", "--", "true"),
                List.of("run", "-n", "-3", "--", "true"),
                List.of("run", "-n", "2"),
                List.of("run", "-n", "2", "--"),
                List.of("run", "-n", "2", "--frobnicate", "--", "true"),
                List.of("run", "-n", "2", "--grace", "-1", "--", "true"),
                List.of("run", "-n", "2", "--grace", "NaN", "--", "true"),
                List.of("run", "-n", "2", "--timeout", "0", "--", "true"),
                List.of("run", "-n", "2", "--env", "novalue", "--", "true"),
                List.of("run", "-n", "2", "--env", "RANK=0", "--", "true"),
                List.of("run", "-n", "2", "--", "/no/such/program"),
                List.of("run", "-n", "2", "--", "no-such-program-on-path"),
                List.of("run", "-n", "2", "--", "./pom.xml"),
                List.of("run", "-n", "2", "--", ""));
    }

    @ParameterizedTest
    @MethodSource("wrong")
    void wrongUsageIsOneLineAndCodeTwo(List<String> args) {
        assertThat(run(args.toArray(String[]::new))).isEqualTo(2);
        assertThat(err.toString().lines())
                .hasSize(1)
                .first()
                .asString()
                .startsWith("kcp")
                .doesNotContain("Exception");
        assertThat(out.toString()).isEmpty();
    }

    @Test
    void withoutACommandTheUsageGoesToStderr() {
        assertThat(run()).isEqualTo(2);
        assertThat(err.toString()).contains("Usage: kcp").contains("run");
        assertThat(out.toString()).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"--help", "-h"})
    void helpShowsExamplesOnStdout(String option) {
        assertThat(run(option)).isZero();
        assertThat(out.toString())
                .contains("Examples:")
                .contains("kcp run -n 2")
                .contains("Exit codes:");
        out.getBuffer().setLength(0);
        assertThat(run("run", option)).isZero();
        assertThat(out.toString())
                .contains("Examples:")
                .contains("--grace")
                .contains("--timeout")
                .contains("--env");
        assertThat(err.toString()).isEmpty();
    }

    @Test
    void versionIsTheBuilds() {
        assertThat(run("--version")).isZero();
        assertThat(out.toString()).matches("kcp \\d+\\.\\d+\\.\\d+\\S*( \\(commit [0-9a-f]+(-dirty)?\\))?\\R");
    }
}
