package dev.kcp.cuda;

import dev.kcp.Digest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;

/**
 * Compiled kernels in a folder that only this user writes. A file is made under another name and then renamed, so that
 * processes that start together never read half of one; each begins with the digest of its contents.
 *
 * @param folder made when the first file is kept
 */
public record KernelCache(Path folder) {
    /** Names another folder than {@code ~/.cache/kcp/kernels}. */
    public static final String FOLDER_PROPERTY = "kcp.kernelCache";

    private static final int DIGEST_BYTES = 32;

    static KernelCache ofUser() {
        String named = System.getProperty(FOLDER_PROPERTY);
        return new KernelCache(
                named != null ? Path.of(named) : Path.of(System.getProperty("user.home"), ".cache", "kcp", "kernels"));
    }

    /** What was kept under the key, or null if nothing was, or not whole. */
    byte[] get(String key) {
        try {
            byte[] file = Files.readAllBytes(file(key));
            if (file.length < DIGEST_BYTES) {
                return null;
            }
            byte[] contents = Arrays.copyOfRange(file, DIGEST_BYTES, file.length);
            return Arrays.equals(digest(contents), Arrays.copyOf(file, DIGEST_BYTES)) ? contents : null;
        } catch (IOException e) {
            return null;
        }
    }

    /** Keeps contents; returns the file, or null if the folder cannot be written. */
    Path put(String key, byte[] contents) {
        try {
            Files.createDirectories(
                    folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            Path made = Files.createTempFile(folder, key, ".part");
            try {
                byte[] file = Arrays.copyOf(digest(contents), DIGEST_BYTES + contents.length);
                System.arraycopy(contents, 0, file, DIGEST_BYTES, contents.length);
                Files.write(made, file);
                return Files.move(made, file(key), StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(made);
            }
        } catch (IOException e) {
            return null;
        }
    }

    private Path file(String key) {
        return folder.resolve(key + ".cubin");
    }

    private static byte[] digest(byte[] contents) {
        return Digest.sha256().digest(contents);
    }
}
