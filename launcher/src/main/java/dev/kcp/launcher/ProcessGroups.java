package dev.kcp.launcher;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Signals to process groups, for which Java has no call. */
final class ProcessGroups {
    private ProcessGroups() {}

    /**
     * Sends a signal; groups that are gone are passed over.
     *
     * @param name without SIG
     * @param andThen a command of the shell after it, or empty
     * @throws IOException if the operating system starts no further process
     */
    static void signal(String name, List<Long> groups, String andThen) throws IOException {
        List<String> words = new ArrayList<>(List.of(
                "/bin/sh", "-c", "for group; do kill -s " + name + " -- \"-$group\"; done; " + andThen, "kill"));
        groups.forEach(group -> words.add(Long.toString(group)));
        Process shell = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        try {
            shell.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
