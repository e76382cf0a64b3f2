package dev.kcp.files;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;

/** Why a file could not be read or written, in words; the JDK's own messages are often the path alone. */
public final class FileFailures {
    private FileFailures() {}

    /** The reason without the path. */
    public static String reason(IOException failure) {
        return switch (failure) {
            case NoSuchFileException missing -> "no such file or folder";
            case AccessDeniedException denied -> "permission denied";
            case FileSystemLoopException loop -> "a link leads back to a folder above it: " + loop.getFile();
            case FileSystemException known when known.getReason() != null -> known.getReason();
            default -> failure.getMessage() == null ? failure.toString() : failure.getMessage();
        };
    }
}
