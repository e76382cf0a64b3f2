package dev.kcp.launcher;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/** The folder below which libraries keep unpacked files, for a user whom the system gives none. */
final class UserHome {
    private UserHome() {}

    /**
     * Sets {@code user.home} where the JVM found none and says "?": libraries would make a folder of that name where the
     * user happens to be. In its place comes a folder of this user alone below the temporary folder.
     */
    static void settle() {
        if (!Path.of(System.getProperty("user.home")).isAbsolute()) {
            Path temporary = Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
            System.setProperty("user.home", ownFolder(temporary).toString());
        }
    }

    private static Path ownFolder(Path temporary) {
        FileAttribute<?> ownerOnly = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
        try {
            Object user = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
            Path folder = temporary.resolve("kcp-home-" + user);
            try {
                return Files.createDirectory(folder, ownerOnly);
            } catch (FileAlreadyExistsException there) {
                return isOwn(folder, user) ? folder : Files.createTempDirectory(temporary, "kcp-home-", ownerOnly);
            }
        } catch (IOException full) {
            // Whoever needs the folder will say that it cannot be made.
            return temporary.resolve("kcp-home");
        }
    }

    private static boolean isOwn(Path folder, Object user) throws IOException {
        Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(folder, LinkOption.NOFOLLOW_LINKS);
        return Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)
                && user.equals(Files.getAttribute(folder, "unix:uid", LinkOption.NOFOLLOW_LINKS))
                && !permissions.contains(PosixFilePermission.GROUP_WRITE)
                && !permissions.contains(PosixFilePermission.OTHERS_WRITE);
    }
}
