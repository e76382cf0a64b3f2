package dev.kcp.launcher;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Files that options of a command name. */
final class OutputFile {
    private OutputFile() {}

    /**
     * Writes a text.
     *
     * @param option the option's name without dashes
     * @throws KcpException BAD_DATA if the file cannot be written
     */
    static void write(String option, Path path, String text) {
        try {
            Files.writeString(path, text);
        } catch (IOException e) {
            throw new KcpException(KcpException.Code.BAD_DATA, "cannot be written: " + option + "=" + path, e);
        }
    }
}
