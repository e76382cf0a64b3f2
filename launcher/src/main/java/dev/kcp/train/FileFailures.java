package dev.kcp.train;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;

/** Why a file could not be read or written, in words; the JDK's own messages are often the path alone. */
final class FileFailures {
    private FileFailures() {}

    static String reason(IOException failure) {
        return switch (failure) {
            case NoSuchFileException missing -> "no such file or folder";
            case AccessDeniedException denied -> "permission denied";
            case FileSystemLoopException loop -> "a link leads back to a folder above it: " + loop.getFile();
            default -> failure.getMessage();
        };
    }
}
