package dev.kcp.launcher;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Files that options name for output. What keeps one from being written is found before the work, not after it. */
final class OutputFile {
    private OutputFile() {}

    /**
     * Refuses a name that no file can be written to.
     *
     * @param option the option's name without dashes
     * @param file the option's value, or null where it was not given
     * @throws KcpException BAD_DATA, saying why
     */
    static void require(String option, Path file) {
        if (file == null) {
            return;
        }
        Path folder = file.toAbsolutePath().getParent();
        if (Files.isDirectory(file)) {
            throw refused(option, file, "it is a folder", null);
        } else if (folder == null || !Files.isDirectory(folder)) {
            throw refused(option, file, "its folder does not exist", null);
        } else if (!Files.isWritable(Files.exists(file) ? file : folder)) {
            throw refused(option, file, "permission denied", null);
        }
    }

    /**
     * Writes a whole file.
     *
     * @param option the option's name without dashes
     * @throws KcpException BAD_DATA if that fails
     */
    static void write(String option, Path file, String text) {
        require(option, file);
        try {
            Files.writeString(file, text);
        } catch (IOException e) {
            throw refused(option, file, e.getMessage(), e);
        }
    }

    private static KcpException refused(String option, Path file, String why, IOException cause) {
        return new KcpException(
                KcpException.Code.BAD_DATA,
                "--" + option + " cannot be written, " + why + ": " + option + "=" + file,
                cause);
    }
}
