package dev.kcp.files;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class WholeFileTest {
    @TempDir
    Path folder;

    private void assertNothingElseThan(String... names) {
        assertThat(folder.toFile().list()).containsExactlyInAnyOrder(names);
    }

    @Test
    void failureInTheMiddleLeavesTheOldFile() throws IOException {
        Path file = Files.writeString(folder.resolve("f"), "old");
        assertThatThrownBy(() -> WholeFile.write(file, out -> {
                    WholeFile.writeFully(out, java.nio.ByteBuffer.wrap(new byte[100]));
                    throw new IOException("No space left on device");
                }))
                .hasMessage("No space left on device");
        assertThat(file).hasContent("old");
        assertNothingElseThan("f");
    }

    @Test
    void newFileIsPutInThePlaceOfTheOldWithItsMode() throws IOException {
        Path file = Files.writeString(folder.resolve("f"), "old");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-r-x"));
        Object before = Files.getAttribute(file, "unix:ino");
        WholeFile.write(file, "new");
        assertThat(file).hasContent("new");
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file)))
                .isEqualTo("rw-rw-r-x");
        assertThat(Files.getAttribute(file, "unix:ino")).isNotEqualTo(before);
        Path plain = Files.writeString(folder.resolve("plain"), "");
        WholeFile.write(folder.resolve("first"), "new");
        assertThat(Files.getPosixFilePermissions(folder.resolve("first")))
                .isEqualTo(Files.getPosixFilePermissions(plain));
    }

    @Test
    void partOfAKilledProcessWithTheSameIdIsNotInTheWay() throws IOException {
        String part = ".f." + ProcessHandle.current().pid() + ".part";
        Files.writeString(folder.resolve(part), "half");
        WholeFile.write(folder.resolve("f"), "whole");
        assertThat(folder.resolve("f")).hasContent("whole");
        assertNothingElseThan("f", part);
    }

    @Test
    void deviceIsWrittenToAlsoThroughALink() throws Exception {
        Path device = folder.resolve("null"); // one of its own: a failing test must not harm the machine
        assumeThat(isMade(device)).as("a device of its own").isTrue();
        Path link = Files.createSymbolicLink(folder.resolve("link"), Path.of("null"));
        Object before = Files.getAttribute(device, "unix:rdev");
        for (Path path : List.of(device, link)) {
            WholeFile.requireWritable(path);
            WholeFile.write(path, "x");
            WholeFile.remove(path);
            assertThat(Files.getAttribute(device, "unix:rdev")).isEqualTo(before);
        }
        assertThat(link).isSymbolicLink();
        assertNothingElseThan("null", "link");
    }

    /** Root may, where the file system has devices. */
    private static boolean isMade(Path device) throws IOException, InterruptedException {
        int made = new ProcessBuilder("mknod", "-m", "666", device.toString(), "c", "1", "3")
                .start()
                .waitFor();
        try {
            Files.newOutputStream(device, StandardOpenOption.WRITE).close();
            return made == 0;
        } catch (IOException noDevices) {
            return false;
        }
    }

    @Test
    void pipeGetsTheBytesAndStaysAPipe() throws Exception {
        Path pipe = folder.resolve("pipe");
        assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor())
                .isZero();
        CompletableFuture<String> read = CompletableFuture.supplyAsync(() -> {
            try {
                return Files.readString(pipe);
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        });
        WholeFile.write(pipe, "through");
        assertThat(read.get(30, TimeUnit.SECONDS)).isEqualTo("through");
        WholeFile.remove(pipe);
        assertThat(Files.readAttributes(pipe, java.nio.file.attribute.BasicFileAttributes.class)
                        .isOther())
                .isTrue();
        assertNothingElseThan("pipe");
    }

    @Test
    void linksStayAndTheEndOfTheirChainIsWritten() throws IOException {
        Path deep = Files.createDirectory(folder.resolve("deep"));
        Path first = Files.createSymbolicLink(folder.resolve("first"), Path.of("second"));
        Path second = Files.createSymbolicLink(folder.resolve("second"), Path.of("deep/target"));
        WholeFile.requireWritable(first);
        WholeFile.write(first, "made");
        assertThat(deep.resolve("target")).hasContent("made");
        WholeFile.write(first, "anew");
        assertThat(deep.resolve("target")).hasContent("anew");
        WholeFile.remove(first);
        assertThat(deep.resolve("target")).isEmptyFile();
        assertThat(first).isSymbolicLink();
        assertThat(second).isSymbolicLink();
        WholeFile.remove(deep.resolve("target"));
        assertThat(deep).isEmptyDirectory();
    }

    @Test
    void linkToNowhereAndCircleAreRefusedBeforeTheWork() throws IOException {
        Path nowhere = Files.createSymbolicLink(folder.resolve("nowhere"), Path.of("no/such"));
        Path circle = Files.createSymbolicLink(folder.resolve("circle"), Path.of("circle"));
        assertThatThrownBy(() -> WholeFile.requireWritable(nowhere)).hasMessageContaining("its folder does not exist");
        assertThatThrownBy(() -> WholeFile.requireWritable(circle)).hasMessageContaining("its links go round");
        assertThatThrownBy(() -> WholeFile.requireWritable(folder)).hasMessageContaining("it is a folder");
        assertThat(Files.exists(circle, LinkOption.NOFOLLOW_LINKS)).isTrue();
    }

    /** As {@code --json /dev/stdout >FILE}: a new file under the name would not be the one that the shell opened. */
    @Test
    void fileThatAProcessHasOpenIsAddedTo() throws IOException {
        Path file = Files.writeString(folder.resolve("f"), "printed,");
        try (java.io.FileOutputStream open = new java.io.FileOutputStream(file.toFile(), true)) {
            Path descriptor = descriptorOf(file);
            Path link = Files.createSymbolicLink(folder.resolve("stdout"), descriptor);
            WholeFile.write(link, "written,");
            WholeFile.remove(link);
            Path alias = Path.of("/dev/fd").resolve(descriptor.getFileName());
            WholeFile.requireWritable(alias);
            WholeFile.write(alias, "again,");
            WholeFile.remove(alias);
            open.write("printed".getBytes(StandardCharsets.US_ASCII));
        }
        assertThat(file).hasContent("printed,written,again,printed");
    }

    private static Path descriptorOf(Path file) throws IOException {
        try (var all = Files.list(Path.of("/proc/self/fd"))) {
            return all.filter(one -> {
                        try {
                            return Files.isSameFile(one, file);
                        } catch (IOException closedMeanwhile) {
                            return false;
                        }
                    })
                    .findFirst()
                    .orElseThrow();
        }
    }
}
