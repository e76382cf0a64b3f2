package dev.kcp.launcher;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The launcher's standard input, which is rank 0's where it is a pipe or a file. The rank opens it for itself, so nobody
 * takes bytes that the rank does not read, as from a shell's loop over lines. Ranks have sessions of their own: one that read
 * a terminal would take what is meant for the shell, so from a terminal no rank reads. A named pipe may wait for a
 * writer who has been and gone.
 */
final class StandardInput {
    private static final Path OWN = Path.of("/proc/self/fd/0");

    private StandardInput() {}

    /** The command of a rank, which finds no input, such that it has this process's input if that is its due. */
    static List<String> given(int rank, List<String> command) {
        if (rank != 0 || !isPassedOn()) {
            return command;
        }
        String input = "/proc/" + ProcessHandle.current().pid() + "/fd/0";
        List<String> reading = new ArrayList<>(List.of("/bin/sh", "-c", "exec \"$@\" <\"$0\"", input));
        reading.addAll(command);
        return reading;
    }

    private static boolean isPassedOn() {
        try {
            Path input = Files.readSymbolicLink(OWN);
            if (input.toString().startsWith("pipe:") || Files.isRegularFile(OWN) && !isJvms(input)) {
                // Where it was opened by another user it may not be opened again.
                new FileInputStream(OWN.toFile()).close();
                return true;
            }
            return false;
        } catch (IOException closed) {
            return false;
        }
    }

    /** Where standard input was closed, the first file that the JVM opened and keeps has its number. */
    private static boolean isJvms(Path input) throws IOException {
        return input.startsWith(Path.of(System.getProperty("java.home")).toRealPath());
    }
}
