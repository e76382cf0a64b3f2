package dev.kcp.files;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;

/**
 * How output gets to a name that a user gave. A plain file is written beside the name and renamed, so that a reader, a full
 * disk or a kill never leaves a part of it. What is no plain file, such as a device or a pipe, is written to and stays what
 * it is. A link stays too, and the file that it leads to is written.
 */
public final class WholeFile {
    /** As many as the kernel follows. */
    private static final int MOST_LINKS = 40;

    /** Puts the bytes; asked again, from the beginning, where the file can only be overwritten. */
    @FunctionalInterface
    public interface Content {
        /** Writes all bytes. */
        void writeTo(FileChannel out) throws IOException;
    }

    private WholeFile() {}

    /** Writes a text in UTF-8. */
    public static void write(Path path, String text) throws IOException {
        write(path, text.getBytes(StandardCharsets.UTF_8));
    }

    /** Writes bytes. */
    public static void write(Path path, byte[] bytes) throws IOException {
        write(path, out -> writeFully(out, ByteBuffer.wrap(bytes)));
    }

    /** Writes what {@code content} puts. */
    public static void write(Path path, Content content) throws IOException {
        write(path, content, false);
    }

    /** As {@link #write(Path, Content)}; once this returns, the file under its name outlives a power cut. */
    public static void writeDurably(Path path, Content content) throws IOException {
        write(path, content, true);
    }

    /** Writes the rest of a buffer; a channel may take less at a time. */
    public static void writeFully(FileChannel out, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            out.write(bytes);
        }
    }

    /**
     * Looks for what keeps a name from being written, before the work for it is done.
     *
     * @throws IOException whose {@linkplain FileFailures#reason reason} says it
     */
    public static void requireWritable(Path path) throws IOException {
        Path target = followed(path);
        Path folder = target.getParent();
        String wrong = null;
        if (Files.isDirectory(target)) {
            wrong = "it is a folder";
        } else if (folder == null || !Files.isDirectory(folder)) {
            wrong = "its folder does not exist";
        } else if (!Files.isWritable(Files.exists(target) ? target : folder)) {
            wrong = "permission denied";
        }
        if (wrong != null) {
            throw new FileSystemException(path.toString(), null, wrong);
        }
    }

    /**
     * Takes away what an earlier run wrote. A plain file is removed, one behind a link is emptied; a device or pipe has
     * nothing to take away.
     */
    public static void remove(Path path) throws IOException {
        Path target = followed(path);
        if (isOpenFile(target) || !Files.isRegularFile(target)) {
            return;
        }
        if (Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
            try {
                Files.delete(target);
                return;
            } catch (IOException mountedByItself) {
                // It can be emptied, or the failure below says why not.
            }
        }
        into(target, out -> {}, false, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
    }

    private static void write(Path path, Content content, boolean isDurable) throws IOException {
        Path target = followed(path);
        if (isOpenFile(target)) {
            // What was printed there before must stay.
            into(target, content, false, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
        } else if (Files.exists(target) && !Files.isRegularFile(target)) {
            into(target, content, false, StandardOpenOption.WRITE);
        } else if (Files.exists(target) && !Files.isWritable(target.getParent())) {
            overwrite(target, content, isDurable);
        } else {
            replace(target, content, isDurable);
        }
    }

    /** The end of the links, whether or not a file is there yet. */
    private static Path followed(Path path) throws IOException {
        Path at = path.toAbsolutePath();
        for (int links = 0; Files.isSymbolicLink(at) && !isOpenFile(at); links++) {
            if (links == MOST_LINKS) {
                throw new FileSystemException(path.toString(), null, "its links go round in a circle");
            }
            at = at.resolveSibling(Files.readSymbolicLink(at));
        }
        return at;
    }

    /** Whether this is an output that a process has open, such as /dev/fd/1: the link's text does not lead to the file. */
    private static boolean isOpenFile(Path path) throws IOException {
        Path folder = path.getParent();
        return folder != null
                && Files.isDirectory(folder)
                && folder.toRealPath().startsWith("/proc");
    }

    private static void replace(Path target, Content content, boolean isDurable) throws IOException {
        Path folder = target.getParent();
        // The name is drawn, so that no part of a killed process is in the way; the mode is that of any new file.
        Path part = Files.createTempFile(
                folder,
                "." + target.getFileName() + ".",
                ".part",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-rw-rw-")));
        try {
            into(part, content, isDurable, StandardOpenOption.WRITE);
            try {
                keepOwner(target, part);
                Files.move(part, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            } catch (FileSystemException notReplaceable) {
                // A file that is mounted by itself, or that belongs to somebody else.
                if (!Files.exists(target)) {
                    throw notReplaceable;
                }
                Files.delete(part);
                overwrite(target, content, isDurable);
            }
        } finally {
            deleteQuietly(part);
        }
        if (isDurable) {
            // The name is in the folder, which is written by itself.
            try (FileChannel names = FileChannel.open(folder, StandardOpenOption.READ)) {
                names.force(true);
            }
        }
    }

    /** A new file belongs to whom the one in its place belonged, and is as private. */
    private static void keepOwner(Path old, Path part) throws IOException {
        if (!Files.exists(old)) {
            return;
        }
        for (String attribute : List.of("unix:uid", "unix:gid", "unix:mode")) {
            Object kept = Files.getAttribute(old, attribute);
            if (!kept.equals(Files.getAttribute(part, attribute))) {
                Files.setAttribute(part, attribute, kept);
            }
        }
    }

    private static void overwrite(Path target, Content content, boolean isDurable) throws IOException {
        into(target, content, isDurable, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
    }

    private static void into(Path file, Content content, boolean isDurable, OpenOption... options) throws IOException {
        try (FileChannel out = FileChannel.open(file, options)) {
            content.writeTo(out);
            if (isDurable) {
                out.force(true);
            }
        }
    }

    private static void deleteQuietly(Path part) {
        try {
            Files.deleteIfExists(part);
        } catch (IOException e) {
            // The failure that led here is the one to report.
        }
    }
}
