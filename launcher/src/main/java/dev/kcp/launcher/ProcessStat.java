package dev.kcp.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/**
 * What the kernel says of a process.
 *
 * @param state its letter in /proc
 */
record ProcessStat(long pid, char state, long parent, long group, long session) {
    /** Empty where there is no such process. */
    static Optional<ProcessStat> of(long pid) {
        try {
            String stat = Files.readString(Path.of("/proc/" + pid + "/stat"), StandardCharsets.ISO_8859_1);
            // The name before may hold blanks and brackets.
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return Optional.of(new ProcessStat(
                    pid,
                    fields[0].charAt(0),
                    Long.parseLong(fields[1]),
                    Long.parseLong(fields[2]),
                    Long.parseLong(fields[3])));
        } catch (IOException gone) {
            return Optional.empty();
        }
    }

    /** Whether it has ended and waits for its reaper only. */
    boolean isZombie() {
        return state == 'Z';
    }
}
