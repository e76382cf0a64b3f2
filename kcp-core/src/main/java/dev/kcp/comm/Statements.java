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
    private final Map<Long, String> subjects = new HashMap<>();
    private long made;

    /**
     * Takes this rank's next statement; returns its number.
     *
     * @param what what it is about, for texts
     */
    long make(int worldRank, String what, String text) {
        long number = made++;
        subjects.put(number, what);
        hear(worldRank, number, text);
        return number;
    }

    void hear(int world, long number, String text) {
        byNumber.computeIfAbsent(number, n -> new TreeMap<>()).put(world, text);
    }

    /** Ranks that have not made a statement of this rank's; none where it was ended. */
    List<Integer> missing(long number, int[] members) {
        Map<Integer, String> heard = byNumber.get(number);
        if (heard == null) {
            return List.of();
        }
        List<Integer> missing = new ArrayList<>();
        for (int world : members) {
            if (!heard.containsKey(world)) {
                missing.add(world);
            }
        }
        return missing;
    }

    boolean isMade(long number) {
        return subjects.containsKey(number);
    }

    /** Forgets a statement that all have made. */
    void end(long number) {
        byNumber.remove(number);
        subjects.remove(number);
    }

    /** Compares a statement that all have made; returns what is wrong with it, or null. */
    Failure compare(long number, String group) {
        TreeMap<Integer, String> heard = byNumber.get(number);
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
                "ranks disagree on " + subjects.get(number) + " " + number + " of group " + group + ": "
                        + String.join("; ", sides));
    }
}
