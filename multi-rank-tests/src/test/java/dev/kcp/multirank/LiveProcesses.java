package dev.kcp.multirank;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Finds processes by a variable in their environment; zombies count as dead, whatever kill -0 says. */
public final class LiveProcesses {
    static final String TAG = "KCP_TEST_TAG";
    private static final Pattern RANK = Pattern.compile("\0RANK=(\\d+)\0");

    private LiveProcesses() {}

    /** One live process; no rank for the launcher itself. */
    public record Found(long pid, OptionalInt rank, String command) {
        boolean isRank(int wanted) {
            return rank.isPresent() && rank.getAsInt() == wanted;
        }
    }

    /** Live processes that inherited {@code tag}, by process id. */
    static List<Found> tagged(String tag) {
        List<Found> found = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path process : all) {
                try {
                    String environment = "\0" + read(process, "environ") + "\0";
                    if (environment.contains("\0" + TAG + "=" + tag + "\0") && isAlive(process)) {
                        Matcher rank = RANK.matcher(environment);
                        found.add(new Found(
                                Long.parseLong(process.getFileName().toString()),
                                rank.find() ? OptionalInt.of(Integer.parseInt(rank.group(1))) : OptionalInt.empty(),
                                read(process, "cmdline").replace('\0', ' ').strip()));
                    }
                } catch (IOException ended) {
                    // It went while we looked.
                }
            }
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        found.sort(Comparator.comparingLong(Found::pid));
        return found;
    }

    /** Whether a process is there and no zombie. */
    static boolean isAlive(long pid) {
        try {
            return isAlive(Path.of("/proc", Long.toString(pid)));
        } catch (IOException gone) {
            return false;
        }
    }

    private static boolean isAlive(Path process) throws IOException {
        String stat = read(process, "stat");
        char state = stat.charAt(stat.lastIndexOf(')') + 2);
        return state != 'Z' && state != 'X';
    }

    private static String read(Path process, String name) throws IOException {
        return new String(Files.readAllBytes(process.resolve(name)), StandardCharsets.ISO_8859_1);
    }
}
