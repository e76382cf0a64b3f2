package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** What is lost is said, and is no success; what failed before it keeps its code. A link to /dev/full is a full disk. */
@Timeout(60)
class OutputLossTest {
    private static final String FULL = "cause=No space left on device\n";

    @TempDir
    Path folder;

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    private static OutputStream failing(IOException failure) {
        return new OutputStream() {
            @Override
            public void write(int one) throws IOException {
                throw failure;
            }
        };
    }

    private static LaunchSpec job(String script) {
        return LaunchSpec.program(1, List.of("/bin/sh", "-c", script));
    }

    private Path fullDisk(String name) throws IOException {
        Path device = folder.resolve(name + ".device");
        return Files.createSymbolicLink(folder.resolve(name), isMade(device) ? device : Path.of("/dev/full"));
    }

    /** Root gets a device of its own: a failing test must not harm the machine's. */
    private static boolean isMade(Path device) {
        try {
            int made = new ProcessBuilder("mknod", "-m", "666", device.toString(), "c", "1", "7")
                    .start()
                    .waitFor();
            Files.newOutputStream(device, StandardOpenOption.WRITE).close();
            return made == 0;
        } catch (IOException noDevices) {
            return false;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private String err() {
        return err.toString(StandardCharsets.UTF_8);
    }

    @Test
    void ranksGoOnWithoutRoomForTheirOutput() {
        IOException full = new IOException("No space left on device");
        String done = folder.resolve("done").toString();
        LaunchResult result = LocalAgent.run(job("echo 1; echo 2; : >" + done), failing(full), err);
        assertThat(result.exitCode()).isEqualTo(3);
        assertThat(err()).startsWith("kcp: standard output cannot be written, output is lost: " + FULL);
        assertThat(Path.of(done)).exists();
        assertThat(LocalAgent.run(job("echo 1; exit 4"), failing(full), err).exitCode())
                .isEqualTo(5);
        assertThat(LocalAgent.run(job("echo 1 >&2"), out, failing(full)).exitCode())
                .isEqualTo(3);
    }

    @Test
    void readerThatLeftEndsTheJob() {
        OutputStream gone = failing(new StandardStream.ReaderGone(new IOException("Broken pipe")));
        assertThat(LocalAgent.run(job("echo 1; sleep 300"), gone, err).exitCode())
                .isEqualTo(141);
    }

    @Test
    void logWithoutRoomIsSaidAndTheOthersAreWhole() throws IOException {
        Path lost = fullDisk("rank-0.out");
        LaunchResult result = LocalAgent.run(
                job("echo out; echo err >&2")
                        .withOutput(new OutputPlan(OutputPlan.Style.PREFIXED, Optional.of(folder), false, RankSet.ALL)),
                out,
                err);
        assertThat(result.exitCode()).isEqualTo(3);
        assertThat(err()).startsWith("kcp: the log " + lost + " cannot be written, output is lost: " + FULL);
        assertThat(folder.resolve("rank-0.err")).hasContent("err\n");
    }

    @Test
    void errorFileWithoutRoomLeavesTheRanksFailureItsCode() throws IOException {
        Path file = fullDisk("error");
        LaunchResult result = LocalAgent.run(job("exit 3").withErrorFile(file), out, err);
        assertThat(result.exitCode()).isEqualTo(5);
        assertThat(err())
                .contains("rank 0 exited with code 3")
                .endsWith("kcp: --error-file cannot be written, No space left on device: error-file=" + file + "\n");
        assertThat(file).isSymbolicLink();
    }

    @Test
    void printedLinesThatAreLostAreNoSuccess() {
        AtomicInteger gone = new AtomicInteger();
        PrintedOutput full = new PrintedOutput(failing(new IOException("x")), gone::incrementAndGet);
        try (PrintStream printer = new PrintStream(full, true)) {
            assertThat(full.exitCode(0)).isZero();
            printer.println("one");
            printer.println("two");
        }
        assertThat(full.exitCode(0)).isEqualTo(3);
        assertThat(full.exitCode(7)).isEqualTo(7);
        assertThat(gone).hasValue(0);
        PrintedOutput left =
                new PrintedOutput(failing(new StandardStream.ReaderGone(new IOException("x"))), gone::incrementAndGet);
        try (PrintStream printer = new PrintStream(left, true)) {
            printer.println("one");
            printer.println("two");
        }
        assertThat(left.exitCode(0)).isEqualTo(141);
        assertThat(gone).hasValue(1);
    }

    @Test
    void everyNamedOutputWithoutRoomIsOneLineAndTheSameCode() throws IOException {
        Path text = Files.writeString(folder.resolve("text"), "some text to learn from, of a few words\n");
        Path full = fullDisk("full");
        Path svg = fullDisk("full.svg");
        String train = "train --data " + text + " --steps 1 --layers 1 --channels 16 --tokens 64";
        PrintStream shown = System.out;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        try {
            everyOutput(train, full, svg);
        } finally {
            System.setOut(shown);
        }
        // A run whose pictures have no room has made its steps.
        assertThat(out.toString(StandardCharsets.UTF_8).lines().filter(line -> line.contains("\"final_loss\"")))
                .hasSize(2);
    }

    private static void everyOutput(String train, Path full, Path svg) {
        for (String line : List.of(
                "plan --lengths 5 --json " + full,
                "plan --lengths 5 --svg " + full,
                train + " --loss-log " + full,
                train + " --report " + full,
                train + " --plot " + svg)) {
            StringWriter said = new StringWriter();
            CommandLine kcp = Main.commandLine(Map.of(), line.split(" "));
            kcp.setErr(new PrintWriter(said, true));
            assertThat(Main.run(kcp, line.split(" "))).as(line).isEqualTo(3);
            assertThat(said.toString().strip())
                    .as(line)
                    .startsWith("kcp: ")
                    .contains("cannot be written")
                    .contains("No space left on device")
                    .hasLineCount(1);
        }
    }
}
