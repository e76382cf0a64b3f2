package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import dev.kcp.files.WholeFile;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
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
        try {
            WholeFile.requireWritable(file);
        } catch (IOException e) {
            throw refused(option, file, e);
        }
    }

    /**
     * Writes a {@link WholeFile}.
     *
     * @param option the option's name without dashes
     * @throws KcpException BAD_DATA if that fails
     */
    static void write(String option, Path file, String text) {
        write(option, file, text.getBytes(StandardCharsets.UTF_8));
    }

    /** As {@link #write(String, Path, String)}, of bytes. */
    static void write(String option, Path file, byte[] bytes) {
        require(option, file);
        try {
            WholeFile.write(file, bytes);
        } catch (IOException e) {
            throw refused(option, file, e);
        }
    }

    private static KcpException refused(String option, Path file, IOException e) {
        return new KcpException(
                KcpException.Code.BAD_DATA,
                "--" + option + " cannot be written, " + FileFailures.reason(e) + ": " + option + "=" + file,
                e);
    }
}
