package dev.kcp.files;

import dev.kcp.Words;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.bytedeco.javacpp.Loader;

/** Folders that native libraries are unpacked into. */
public final class NativeFolder {
    private NativeFolder() {}

    /** Where JavaCPP unpacks; the temporary folder where it finds no place. */
    public static Path ofJavaCpp() {
        try {
            return Loader.getCacheDir().toPath();
        } catch (IOException none) {
            return temporary();
        }
    }

    /** Where JCuda unpacks. */
    public static Path temporary() {
        return Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
    }

    /**
     * Why a library does not load: the first line of the failure, and whether nothing can run from a folder that it is
     * unpacked into, which the failure itself does not say.
     */
    public static String reason(LinkageError failure, Path... unpackedInto) {
        StringBuilder reason =
                new StringBuilder(Words.of(failure).lines().findFirst().orElse(""));
        for (Path folder : unpackedInto) {
            if (isNoexec(folder)) {
                reason.append("; it is unpacked into a folder that is mounted noexec: folder=")
                        .append(folder);
            }
        }
        return reason.toString();
    }

    /** Asks the system about a file that its owner may run. */
    private static boolean isNoexec(Path folder) {
        try {
            Path file = Files.createTempFile(
                    folder,
                    "kcp-",
                    ".tmp",
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            try {
                return !Files.isExecutable(file);
            } finally {
                Files.delete(file);
            }
        } catch (IOException unknown) {
            return false;
        }
    }
}
