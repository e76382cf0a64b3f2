package dev.kcp.comm;

import dev.kcp.KcpException.Code;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What the ranks of one group stated, by number, until all have and they were compared. Guarded by the mesh's lock. */
final class Statements {
    private final Map<Long, TreeMap<Integer, String>> byNumber = new HashMap<>();
    private long made;

    /** Takes this rank's next statement; returns its number. */
    long make(int worldRank, String text) {
        long number = made++;
        hear(worldRank, number, text);
        return number;
    }

    void hear(int world, long number, String text) {
        byNumber.computeIfAbsent(number, n -> new TreeMap<>()).put(world, text);
    }

    List<Integer> missing(long number, int[] members) {
        Map<Integer, String> heard = byNumber.get(number);
        List<Integer> missing = new ArrayList<>();
        for (int world : members) {
            if (!heard.containsKey(world)) {
                missing.add(world);
            }
        }
        return missing;
    }

    /** Ends a statement that all have made; returns what is wrong with it, or null. */
    Failure compare(long number, String group, String what) {
        TreeMap<Integer, String> heard = byNumber.remove(number);
        Map<String, List<Integer>> ranksByText = new LinkedHashMap<>();
        heard.forEach((world, text) ->
                ranksByText.computeIfAbsent(text, t -> new ArrayList<>()).add(world));
        if (ranksByText.size() == 1) {
            return null;
        }
        List<String> sides = new ArrayList<>();
        ranksByText.forEach((text, ranks) -> ranks.forEach(world -> sides.add("rank " + world + " means " + text)));
        return new Failure(
                Code.DISAGREEMENT,
                heard.firstKey(),
                -1,
                "ranks disagree on " + what + " " + number + " of group " + group + ": " + String.join("; ", sides));
    }
}
