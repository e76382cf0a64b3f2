package dev.kcp.files;

import java.io.EOFException;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.util.ArrayList;
import java.util.List;

/** Why a file could not be read or written, in words; the JDK's own messages are often the path alone. */
public final class FileFailures {
    /** What to say where {@link #isOutOfFiles()}. */
    public static final String OUT_OF_FILES = "too many open files (ulimit -n)";

    private static final int FILES_OF_A_START = 12;

    private FileFailures() {}

    /** Whether this process cannot open as many files as the start of another one takes: why classes, ports, ranks fail. */
    public static boolean isOutOfFiles() {
        List<FileInputStream> opened = new ArrayList<>();
        try {
            while (opened.size() < FILES_OF_A_START) {
                opened.add(new FileInputStream("/dev/null"));
            }
            return false;
        } catch (IOException full) {
            return true;
        } finally {
            for (FileInputStream one : opened) {
                try {
                    one.close();
                } catch (IOException ignored) {
                    // Nothing was read.
                }
            }
        }
    }

    /** The reason without the path. */
    public static String reason(IOException failure) {
        return switch (failure) {
            case NoSuchFileException missing -> "no such file or folder";
            case AccessDeniedException denied -> "permission denied";
            case FileAlreadyExistsException taken -> "it exists already";
            case NotDirectoryException file -> "it is no folder";
            case DirectoryNotEmptyException full -> "the folder is not empty";
            case FileSystemLoopException loop -> "a link leads back to a folder above it: " + loop.getFile();
            case FileSystemException known when known.getReason() != null -> known.getReason();
            case FileSystemException unknown -> "the system does not say why";
            case EOFException cut -> "it ends too early";
            case ClosedChannelException closed -> "it was closed";
            default -> failure.getMessage() == null ? "the system does not say why" : failure.getMessage();
        };
    }
}
