package dev.kcp.launcher;

import dev.kcp.comm.RankInfo;
import java.util.Map;

/** Tells people once per job whose ranks these are, where kcp had to find that out. */
final class Announcement {
    private Announcement() {}

    /** One line on stderr, by rank 0. */
    static void print(RankInfo me, Map<String, String> environment) {
        if (me.rank() == 0) {
            RankInfo.describeLauncher(environment).ifPresent(line -> System.err.println("kcp: " + line));
        }
    }
}
