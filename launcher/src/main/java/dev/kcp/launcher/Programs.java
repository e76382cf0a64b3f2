package dev.kcp.launcher;

import dev.kcp.KcpException;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;

/** Finds programs before they are started, so that a slip of the finger is one clear line and not N. */
final class Programs {
    private static final String SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin";

    private static final Set<PosixFilePermission> EXECUTABLE_BY_ALL = Set.of(
            PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.OTHERS_EXECUTE);

    private Programs() {}

    /**
     * Checks that a rank's program can be started.
     *
     * @param path the ranks' PATH, or null
     * @throws IllegalArgumentException if there is no such program
     */
    static void require(String program, String path) {
        if (program.indexOf('/') < 0) {
            if (find(program, path).isEmpty()) {
                first(program, path, Programs::isOnNoexec).ifPresent(Programs::refuseNoexec);
                throw new IllegalArgumentException("program not found on PATH: program=" + program);
            }
        } else if (!Files.exists(Path.of(program))) {
            throw new IllegalArgumentException("no such program: program=" + program);
        } else if (isOnNoexec(Path.of(program))) {
            refuseNoexec(Path.of(program));
        } else if (!isProgram(Path.of(program))) {
            throw new IllegalArgumentException("not an executable file: program=" + program);
        }
    }

    /** The setsid program, which gives each rank its own session. */
    static Path setsid(String path) {
        return find("setsid", path)
                .or(() -> find("setsid", SYSTEM_PATH))
                .orElseThrow(() -> new KcpException(
                        KcpException.Code.MISSING_DEVICE,
                        "starting ranks needs the program setsid (package util-linux), which is not on PATH: PATH="
                                + path));
    }

    /** A program on PATH. */
    static Optional<Path> find(String program, String path) {
        return first(program, path, Programs::isProgram);
    }

    private static Optional<Path> first(String program, String path, Predicate<Path> wanted) {
        if (program.isEmpty()) {
            return Optional.empty();
        }
        for (String folder : (path == null ? SYSTEM_PATH : path).split(File.pathSeparator, -1)) {
            try {
                Path candidate = Path.of(folder.isEmpty() ? "." : folder, program);
                if (wanted.test(candidate)) {
                    return Optional.of(candidate);
                }
            } catch (InvalidPathException notAFolder) {
                // PATH may hold anything; the shell skips such entries too.
            }
        }
        return Optional.empty();
    }

    private static boolean isProgram(Path candidate) {
        return Files.isRegularFile(candidate) && Files.isExecutable(candidate);
    }

    /** What everybody may run and this process may not is on a file system of which nothing runs. */
    private static boolean isOnNoexec(Path candidate) {
        try {
            return Files.isRegularFile(candidate)
                    && Files.getPosixFilePermissions(candidate).containsAll(EXECUTABLE_BY_ALL)
                    && !Files.isExecutable(candidate);
        } catch (IOException unknown) {
            return false;
        }
    }

    private static void refuseNoexec(Path program) {
        throw new IllegalArgumentException("the program's folder is mounted noexec: program=" + program);
    }
}
