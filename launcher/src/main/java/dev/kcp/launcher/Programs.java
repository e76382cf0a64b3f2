package dev.kcp.launcher;

import dev.kcp.KcpException;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Optional;

/** Finds programs before they are started, so that a slip of the finger is one clear line and not N. */
final class Programs {
    private static final String SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin";

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
                throw new IllegalArgumentException("program not found on PATH: program=" + program);
            }
        } else if (!Files.exists(Path.of(program))) {
            throw new IllegalArgumentException("no such program: program=" + program);
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
        if (program.isEmpty()) {
            return Optional.empty();
        }
        for (String folder : (path == null ? SYSTEM_PATH : path).split(File.pathSeparator, -1)) {
            try {
                Path candidate = Path.of(folder.isEmpty() ? "." : folder, program);
                if (isProgram(candidate)) {
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
}
