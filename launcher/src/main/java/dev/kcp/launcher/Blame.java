package dev.kcp.launcher;

import java.util.List;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Whom a rank's last words name as the one that failed. A rank that dies slowly, as one without memory does, leaves its
 * group first and ends last: the others hear of it, say so, and are gone before it is.
 */
final class Blame {
    /** As every rank of a group that ended says, kcp's own and a program's that let the exception through. */
    private static final Pattern NAMED = Pattern.compile("(?:.*KcpException: )?rank (\\d{1,9})\\b.*");

    private Blame() {}

    /** The rank that {@code lastLines} of {@code rank} name, if it is another one. */
    static OptionalInt of(int rank, List<String> lastLines) {
        Matcher named = NAMED.matcher(OutputTail.message(lastLines).orElse(""));
        int blamed = named.matches() ? Integer.parseInt(named.group(1)) : rank;
        return blamed == rank ? OptionalInt.empty() : OptionalInt.of(blamed);
    }
}
