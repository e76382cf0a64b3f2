package dev.kcp.train;

import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * What a run's numbers follow from, by name: a saved state is gone on with only by a run that has the same. How tokens are
 * shared out is not part of it.
 */
final class RunIdentity {
    /** What decides how far a step moves the weights: another run may go on with other values of these. */
    private static final Set<String> SCHEDULE = Set.of("steps", "learningRate", "weightDecay", "clipNorm");

    private RunIdentity() {}

    static SortedMap<String, String> of(TrainConfig config, TextCorpus corpus) {
        SortedMap<String, String> identity = new TreeMap<>();
        identity.put("layers", Integer.toString(config.shape().layers()));
        identity.put("channels", Integer.toString(config.shape().channels()));
        identity.put("tokens", Integer.toString(config.tokens()));
        identity.put("microSteps", Integer.toString(config.microSteps()));
        identity.put("steps", Integer.toString(config.steps()));
        identity.put("seed", Long.toString(config.seed()));
        identity.put("learningRate", Double.toString(config.learningRate()));
        identity.put("weightDecay", Double.toString(config.weightDecay()));
        identity.put("clipNorm", Double.toString(config.clipNorm()));
        identity.put("documents", Integer.toString(corpus.documents()));
        identity.put("bytes", Long.toString(corpus.bytes()));
        identity.put("textDigest", Long.toHexString(corpus.digest()));
        return identity;
    }

    /** What a run must share with a saved one that it goes on with on a schedule of its own. */
    static SortedMap<String, String> withoutSchedule(SortedMap<String, String> identity) {
        SortedMap<String, String> left = new TreeMap<>(identity);
        left.keySet().removeAll(SCHEDULE);
        return left;
    }

    /**
     * Compares a saved run's identity with this one's.
     *
     * @param saved of the file's metadata
     * @param where the file, for the text
     * @throws IllegalArgumentException naming what differs first, with both values
     */
    static void check(Map<String, String> mine, Map<String, String> saved, Object where) {
        mine.forEach((name, value) -> {
            if (!value.equals(saved.get(name))) {
                throw new IllegalArgumentException("the saved state belongs to another run; give its settings, "
                        + (SCHEDULE.contains(name) ? "--new-schedule, " : "") + "or another folder: file=" + where + " "
                        + name + "=" + value + " saved " + name + "="
                        + saved.get(name));
            }
        });
    }
}
