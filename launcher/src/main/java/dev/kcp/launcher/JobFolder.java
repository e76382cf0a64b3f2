package dev.kcp.launcher;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;

/** The temporary folder of one job: one folder per rank, for its guard's notes and its own temporary files. */
final class JobFolder implements AutoCloseable {
    private final Path folder;

    JobFolder() {
        try {
            folder = Files.createTempDirectory("kcp-job-").toAbsolutePath();
        } catch (IOException e) {
            throw new UncheckedIOException(
                    "cannot make a temporary folder: java.io.tmpdir=" + System.getProperty("java.io.tmpdir"), e);
        }
    }

    /** A new folder for the guard of {@code rank}. */
    Path ofRank(int rank) throws IOException {
        return Files.createDirectory(folder.resolve("rank-" + rank));
    }

    /** A folder for what concerns all ranks, such as the records of their collective calls. */
    Path shared() throws IOException {
        return Files.createDirectories(folder.resolve("shared"));
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
