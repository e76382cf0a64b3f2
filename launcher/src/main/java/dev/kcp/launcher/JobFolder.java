package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;

/** The temporary folder of one job: one folder per rank, for its guard's notes and its own temporary files. */
final class JobFolder implements AutoCloseable {
    private final Path folder;

    /** @throws KcpException BAD_DATA, as all others, if there is no room or permission */
    JobFolder() {
        try {
            folder = Files.createTempDirectory("kcp-job-").toAbsolutePath();
        } catch (IOException e) {
            throw refused(e);
        }
    }

    /**
     * New folders for the guards of all ranks, each with a folder {@code tmp} for the rank itself, and with room for the
     * guard's notes: the first rank may fill the disk.
     */
    List<Path> ofRanks(int ranks) {
        List<Path> folders = new ArrayList<>();
        try {
            for (int rank = 0; rank < ranks; rank++) {
                Path scratch = Files.createDirectory(folder.resolve("rank-" + rank));
                Files.createDirectory(scratch.resolve("tmp"));
                for (String note : WorkerProcess.NOTES) {
                    Files.writeString(scratch.resolve(note), " ".repeat(WorkerProcess.NOTE_BYTES));
                }
                folders.add(scratch);
            }
            return folders;
        } catch (IOException e) {
            throw refused(e);
        }
    }

    /** A folder for what concerns all ranks, such as the records of their collective calls. */
    Path shared() {
        try {
            return Files.createDirectories(folder.resolve("shared"));
        } catch (IOException e) {
            throw refused(e);
        }
    }

    private static KcpException refused(IOException e) {
        return new KcpException(
                KcpException.Code.BAD_DATA,
                "the temporary folder cannot be written, " + FileFailures.reason(e) + ": java.io.tmpdir="
                        + System.getProperty("java.io.tmpdir"),
                e);
    }

    /** Removes everything; what cannot be removed stays, since the job's result matters more. */
    @Override
    public void close() {
        try {
            Files.walkFileTree(folder, new SimpleFileVisitor<>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                    Files.deleteIfExists(file);
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFileFailed(Path file, IOException e) {
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path visited, IOException e) throws IOException {
                    Files.deleteIfExists(visited);
                    return FileVisitResult.CONTINUE;
                }
            });
        } catch (IOException left) {
            System.getLogger(JobFolder.class.getName())
                    .log(System.Logger.Level.DEBUG, "temporary folder stays: folder=" + folder, left);
        }
    }
}
