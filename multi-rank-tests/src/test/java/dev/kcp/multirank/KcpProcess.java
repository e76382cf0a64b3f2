package dev.kcp.multirank;

import dev.kcp.conv.Eventually;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** A {@code kcp} command in a JVM of its own, as a user would start it, with its output in files. */
public final class KcpProcess implements AutoCloseable {
    private static final String MAIN = "dev.kcp.launcher.Main";

    private final Process process;
    private final Path folder;
    private final String tag;

    private KcpProcess(Process process, Path folder, String tag) {
        this.process = process;
        this.folder = folder;
        this.tag = tag;
    }

    /** What a command has left. */
    public record Result(int exitCode, byte[] stdout, byte[] stderr) {
        public String out() {
            return new String(stdout, StandardCharsets.UTF_8);
        }

        /** Without the JVM's own warning about the vector module. */
        public String err() {
            return new String(stderr, StandardCharsets.UTF_8)
                    .replaceFirst("WARNING: Using incubator modules: .*\n", "");
        }
    }

    public static KcpProcess start(String... args) {
        return start(Map.of(), args);
    }

    public static KcpProcess start(Map<String, String> environment, String... args) {
        return start(List.of(), List.of(), MAIN, environment, args);
    }

    /** Starts another main class in the command's place. */
    public static KcpProcess startMain(String mainClass, String... args) {
        return start(List.of(), List.of(), mainClass, Map.of(), args);
    }

    /**
     * Starts the command through another one, such as setsid.
     *
     * @param before words before the JVM's own
     * @param flags further flags of the JVM
     */
    static KcpProcess startThrough(List<String> before, List<String> flags, String... args) {
        return start(before, flags, MAIN, Map.of(), args);
    }

    private static KcpProcess start(
            List<String> before,
            List<String> flags,
            String mainClass,
            Map<String, String> environment,
            String... args) {
        List<String> command = new ArrayList<>(before);
        command.addAll(List.of(
                ProcessHandle.current().info().command().orElseThrow(),
                "--add-modules=jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-XX:TieredStopAtLevel=1"));
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), mainClass));
        command.addAll(List.of(args));
        try {
            Path folder = Files.createTempDirectory("kcp-test-");
            String tag = UUID.randomUUID().toString();
            ProcessBuilder builder = new ProcessBuilder(command)
                    .redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")))
                    .redirectOutput(folder.resolve("out").toFile())
                    .redirectError(folder.resolve("err").toFile());
            builder.environment().putAll(environment);
            builder.environment().put(LiveProcesses.TAG, tag);
            return new KcpProcess(builder.start(), folder, tag);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Runs a command to its end. */
    public static Result run(String... args) {
        try (KcpProcess kcp = start(args)) {
            return kcp.await();
        }
    }

    /** Waits for the end; a command that hangs fails the test. */
    public Result await() {
        try {
            if (!process.waitFor(Eventually.LIMIT)) {
                throw new AssertionError("kcp still runs: stdout=" + out() + " stderr=" + read("err"));
            }
            return new Result(
                    process.exitValue(),
                    Files.readAllBytes(folder.resolve("out")),
                    Files.readAllBytes(folder.resolve("err")));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    /** Stdout so far. */
    public String out() {
        return read("out");
    }

    /** Stderr so far. */
    public String err() {
        return read("err");
    }

    private String read(String name) {
        try {
            return Files.readString(folder.resolve(name));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public boolean isAlive() {
        return process.isAlive();
    }

    public long pid() {
        return process.pid();
    }

    /** Everything that runs because of this command: launcher, guards, ranks and what they started. */
    public List<LiveProcesses.Found> processes() {
        return LiveProcesses.tagged(tag);
    }

    /** Leaves nothing of this command behind. */
    @Override
    public void close() {
        for (LiveProcesses.Found found : processes()) {
            ProcessHandle.of(found.pid()).ifPresent(ProcessHandle::destroyForcibly);
        }
        try {
            Files.deleteIfExists(folder.resolve("out"));
            Files.deleteIfExists(folder.resolve("err"));
            Files.deleteIfExists(folder);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
