package dev.kcp.comm;

import java.util.EnumMap;
import java.util.Map;

/**
 * What one communicator did so far on this rank.
 *
 * @param calls calls made, by kind; kinds without a call are absent
 * @param bytesSent payload bytes sent to peers, by kind; headers and control messages are not counted
 * @param waitNanos how long this rank's thread waited for calls to be done; exchanges in GPU memory are awaited by streams
 *     and add nothing
 */
public record CommunicatorStats(Map<Call.Kind, Long> calls, Map<Call.Kind, Long> bytesSent, long waitNanos) {
    /** Copies the maps. */
    public CommunicatorStats {
        calls = Map.copyOf(calls);
        bytesSent = Map.copyOf(bytesSent);
    }

    /** Calls of a kind. */
    public long calls(Call.Kind kind) {
        return calls.getOrDefault(kind, 0L);
    }

    /** Payload bytes sent in calls of a kind. */
    public long bytesSent(Call.Kind kind) {
        return bytesSent.getOrDefault(kind, 0L);
    }

    /** Counts for one communicator; read from any thread. */
    public static final class Counter {
        private final Map<Call.Kind, Long> calls = new EnumMap<>(Call.Kind.class);
        private final Map<Call.Kind, Long> bytesSent = new EnumMap<>(Call.Kind.class);
        private long waitNanos;

        /** Counts a call. */
        public synchronized void call(Call.Kind kind) {
            calls.merge(kind, 1L, Long::sum);
        }

        /** Counts payload bytes sent in a call of a kind. */
        public synchronized void sent(Call.Kind kind, long bytes) {
            bytesSent.merge(kind, bytes, Long::sum);
        }

        /** Counts time that the rank's thread waited. */
        public synchronized void waited(long nanos) {
            waitNanos += nanos;
        }

        /** Counts all that was counted elsewhere. */
        public synchronized void add(CommunicatorStats others) {
            others.calls().forEach((kind, count) -> calls.merge(kind, count, Long::sum));
            others.bytesSent().forEach((kind, bytes) -> bytesSent.merge(kind, bytes, Long::sum));
            waitNanos += others.waitNanos();
        }

        /** What was counted so far. */
        public synchronized CommunicatorStats read() {
            return new CommunicatorStats(calls, bytesSent, waitNanos);
        }
    }
}
