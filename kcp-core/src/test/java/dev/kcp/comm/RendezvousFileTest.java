package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Ranks that share a folder and nothing else. */
class RendezvousFileTest {
    private static final RendezvousFile.Entry ENTRY =
            new RendezvousFile.Entry("world", new HostAndPort("127.0.0.1", 4711), "job-1", "hush");

    @TempDir
    private Path folder;

    private RendezvousFile file() {
        return new RendezvousFile(folder.resolve("meet"), false);
    }

    private static Object join(RankInfo me, String name, Duration deadline) {
        try (Communicator communicator = TcpCommunicator.join(me, name, deadline, deadline)) {
            return communicator.allGather("who", new byte[] {(byte) me.rank()}).size();
        } catch (KcpException e) {
            return e;
        }
    }

    private static RankInfo rank(int rank, int ranks, RendezvousFile file) {
        return new RankInfo(rank, rank, ranks, ranks, null, 0, null, file, "", "");
    }

    @Test
    void ranksMeetTwiceAndTheFileGoes() throws Exception {
        for (boolean oneHost : new boolean[] {false, true}) {
            RendezvousFile file =
                    new RendezvousFile(folder.resolve("private-" + oneHost).resolve("meet"), oneHost);
            if (!oneHost) {
                Files.createDirectory(file.path().getParent());
            }
            List<Object> outcomes = Ranks.onThreads(3, rank -> {
                // Rank 0 comes last: the others look for a file, and a folder, that is not there yet.
                if (rank == 0) {
                    Thread.sleep(200);
                }
                RankInfo me = rank(rank, 3, file);
                return List.of(join(me, "first", Ranks.DEADLINE), join(me, "second", Ranks.DEADLINE));
            });
            assertThat(outcomes).containsOnly(List.of(3, 3));
            assertThat(file.path()).doesNotExist();
        }
    }

    @Test
    void whatIsNoPlainFileIsNotReplaced() throws Exception {
        RendezvousFile file = file();
        assertThat(new ProcessBuilder("mkfifo", file.path().toString()).start().waitFor())
                .isZero();
        assertThatThrownBy(() -> file.write(ENTRY))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("a device, link or folder has its name");
        assertThat(Files.getAttribute(file.path(), "isOther")).isEqualTo(true);
        assertThat(folder.toFile().list()).containsExactly("meet");
    }

    @Test
    void leftoverOfADeadJobIsPassedOver() throws Exception {
        int deadPort;
        try (ServerSocket closed = new ServerSocket(0)) {
            deadPort = closed.getLocalPort();
        }
        file().write(new RendezvousFile.Entry("world", new HostAndPort("127.0.0.1", deadPort), "old", "old"));
        List<Object> outcomes = Ranks.onThreads(2, rank -> {
            if (rank == 0) {
                Thread.sleep(300);
            }
            return join(rank(rank, 2, file()), "world", Ranks.DEADLINE);
        });
        assertThat(outcomes).containsOnly(2);
    }

    @Test
    void leftoverWhoseStoreServesAnotherJobIsPassedOver() throws Exception {
        try (StoreServer other = StoreServer.start("127.0.0.1", 0, "other", "other")) {
            file().write(new RendezvousFile.Entry("world", new HostAndPort("127.0.0.1", other.port()), "old", "old"));
            List<Object> outcomes = Ranks.onThreads(2, rank -> {
                if (rank == 0) {
                    Thread.sleep(300);
                }
                return join(rank(rank, 2, file()), "world", Ranks.DEADLINE);
            });
            assertThat(outcomes).containsOnly(2);
        }
    }

    @Test
    void missingRankZeroIsSaidAtTheDeadline() {
        assertThat(join(rank(1, 2, file()), "world", Duration.ofMillis(300)))
                .isInstanceOfSatisfying(KcpException.class, e -> {
                    assertThat(e.code()).isEqualTo(KcpException.Code.RENDEZVOUS);
                    assertThat(e)
                            .hasMessageContaining("file=" + file().path())
                            .hasMessageContaining("deadlineMillis=300");
                });
    }

    @Test
    void onlyItsOwnerReadsIt() throws IOException {
        file().write(ENTRY);
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file().path())))
                .isEqualTo("rw-------");
        assertThat(file().read()).hasValue(ENTRY);
        assertThat(ENTRY.toString()).doesNotContain("hush");
        try (var left = Files.list(folder)) {
            assertThat(left).containsExactly(file().path());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"rw-r-----", "rw----r--", "rw--w----"})
    void fileThatOthersMayTouchIsRefused(String mode) throws IOException {
        file().write(ENTRY);
        Files.setPosixFilePermissions(file().path(), PosixFilePermissions.fromString(mode));
        assertThatThrownBy(() -> file().read())
                .isInstanceOf(KcpException.class)
                .hasMessageContaining(mode)
                .hasMessageContaining("file=" + file().path())
                .hasMessageNotContaining("hush");
    }

    @Test
    void linkAndStrangeTextAreRefused() throws IOException {
        file().write(ENTRY);
        Path link = Files.createSymbolicLink(folder.resolve("link"), file().path());
        assertThatThrownBy(() -> new RendezvousFile(link, false).read()).hasMessageContaining("is a link");
        Path text = Files.createFile(
                folder.resolve("text"),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        for (String content : List.of("", "hello\n", "kcp rendezvous 1\nstore=x\n")) {
            Files.writeString(text, content);
            assertThatThrownBy(() -> new RendezvousFile(text, false).read())
                    .isInstanceOf(KcpException.class)
                    .hasMessageContaining("no rendezvous file");
        }
    }

    @Test
    void folderThatOthersMayEnterIsRefused() throws IOException {
        Path open = Files.createDirectory(folder.resolve("open"));
        Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxr-xr-x"));
        RendezvousFile file = new RendezvousFile(open.resolve("meet"), true);
        assertThatThrownBy(() -> file.write(ENTRY))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("rwxr-xr-x");
        assertThatThrownBy(file::read).isInstanceOf(KcpException.class).hasMessageContaining("rwxr-xr-x");
    }

    @Test
    void fileOfALaterJobIsNotRemoved() {
        file().write(ENTRY);
        RendezvousFile.Entry later =
                new RendezvousFile.Entry("world", new HostAndPort("127.0.0.1", 4712), "job-2", "hush");
        file().write(later);
        file().remove(ENTRY);
        assertThat(file().read()).hasValue(later);
        file().remove(later);
        assertThat(file().path()).doesNotExist();
    }
}
