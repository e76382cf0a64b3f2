package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;

/**
 * Lines of bash in which {@code "$KCP"} is the {@code kcp} script of this checkout, with the classes under test, and
 * {@code "$TEXT"} a file of a few words.
 */
final class KcpShell implements AutoCloseable {
    private final Path folder;
    private final Path temporary;
    private final String tag = UUID.randomUUID().toString();

    /** @param folder where lines run; it holds text.txt and the temporary folder tmp */
    KcpShell(Path folder) throws IOException {
        this.folder = folder;
        this.temporary = Files.createDirectories(folder.resolve("tmp"));
        Files.writeString(folder.resolve("text.txt"), "a text of a few words\n\nand another one\n");
    }

    /** What a line has left; a byte is a letter, since not all are text. */
    record Result(int exitCode, String out, String err) {}

    Process start(String line) throws IOException {
        ProcessBuilder builder = new ProcessBuilder("/bin/bash", "-c", line).directory(folder.toFile());
        Path root = Path.of(System.getProperty("kcp.root"));
        builder.environment().keySet().removeIf(name -> name.startsWith("KCP_"));
        builder.environment().put("ROOT", root.toString());
        builder.environment().put("TEXT", "text.txt");
        builder.environment().put("KCP", root.resolve("kcp").toString());
        builder.environment().put("KCP_CLASSPATH", System.getProperty("java.class.path"));
        builder.environment().put("KCP_JDK", System.getProperty("java.home"));
        // Starts count here, and not how fast loops become.
        builder.environment().put("KCP_JAVA_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC");
        builder.environment().put("TMPDIR", temporary.toString());
        builder.environment().put(LiveProcesses.TAG, tag);
        return builder.redirectOutput(folder.resolve("stdout").toFile())
                .redirectError(folder.resolve("stderr").toFile())
                .start();
    }

    Result await(Process process) throws IOException, InterruptedException {
        assertThat(process.waitFor(Eventually.LIMIT)).isTrue();
        return new Result(process.exitValue(), out(), err());
    }

    Result run(String line) throws IOException, InterruptedException {
        return await(start(line));
    }

    /** Stdout so far. */
    String out() throws IOException {
        return read("stdout");
    }

    /** Stderr so far, without the JVM's warning about the vector module. */
    String err() throws IOException {
        return read("stderr").replaceFirst("WARNING: Using incubator modules: .*\n", "");
    }

    private String read(String name) throws IOException {
        return Files.readString(folder.resolve(name), StandardCharsets.ISO_8859_1);
    }

    /** What runs because of these lines. */
    List<LiveProcesses.Found> processes() {
        return LiveProcesses.tagged(tag);
    }

    @Override
    public void close() {
        processes().forEach(found -> ProcessHandle.of(found.pid()).ifPresent(ProcessHandle::destroyForcibly));
    }
}
