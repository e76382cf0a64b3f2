package dev.kcp.core;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Keeps what was computed for the last few batch layouts. A layout is found by what it says, never by which object says it,
 * so an array that was reused for another batch cannot bring back the plan of the one before. Used from any thread.
 */
public final class PlanCache {
    private record Key(Partition partition, HistoryCounts history, int rank) {}

    private final Map<Key, RankPlan> plans;
    private long builds;

    /**
     * An empty cache.
     *
     * @param capacity most layouts kept; the one that was not used for longest goes first
     */
    public PlanCache(int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException("a cache keeps at least one plan: capacity=" + capacity);
        }
        plans = new LinkedHashMap<>(16, 0.75f, true) {
            private static final long serialVersionUID = 1L;

            @Override
            protected boolean removeEldestEntry(Map.Entry<Key, RankPlan> eldest) {
                return size() > capacity;
            }
        };
    }

    synchronized RankPlan get(Partition partition, HistoryCounts history, int rank) {
        return plans.computeIfAbsent(new Key(partition, history, rank), key -> {
            builds++;
            return new RankPlan(partition, history, rank);
        });
    }

    /** Plans that were computed because none was kept. */
    public synchronized long builds() {
        return builds;
    }
}
