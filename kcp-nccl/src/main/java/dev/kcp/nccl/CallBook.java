package dev.kcp.nccl;

import dev.kcp.comm.Call;
import dev.kcp.comm.CommunicatorStats;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * What this rank has called: told to all ranks and counted. While a graph is captured, calls are written down instead, for
 * its every replay.
 */
final class CallBook implements AutoCloseable {
    private final CallAnnouncer announcer;
    private final CommunicatorStats.Counter total = new CommunicatorStats.Counter();
    private final Set<Call> agreedCalls = new HashSet<>();
    private CommunicatorStats.Counter counter = total;
    private List<Call> recording;

    /** @param announcer closed with this */
    CallBook(CallAnnouncer announcer) {
        this.announcer = announcer;
    }

    /** Writes a call down; what it means must be known to all ranks before its rows first travel. */
    void enter(Call call) {
        if (agreedCalls.add(call)) {
            announcer.agree("call", call.toString());
        }
        if (recording != null) {
            recording.add(call);
        } else {
            announcer.announce(call);
        }
        counter.call(call.kind());
    }

    /** Counts payload bytes of a call. */
    void sent(Call.Kind kind, long bytes) {
        counter.sent(kind, bytes);
    }

    /** Writes down a replay, and counts the calls that it makes. */
    void enterReplay(Call replay, CommunicatorStats perReplay) {
        enter(replay);
        total.add(perReplay);
    }

    /** Waits until every rank has said the same of something. */
    void agree(String what, String statement) {
        announcer.agree(what, statement);
    }

    boolean isCapturing() {
        return recording != null;
    }

    void beginCapture() {
        recording = new ArrayList<>();
        counter = new CommunicatorStats.Counter();
    }

    void endCapture() {
        recording = null;
        counter = total;
    }

    /** Calls of the capture so far. */
    List<Call> captured() {
        return List.copyOf(recording);
    }

    /** Counts of the capture so far. */
    CommunicatorStats capturedStats() {
        return counter.read();
    }

    /** Counts of everything that was queued. */
    CommunicatorStats stats() {
        return total.read();
    }

    @Override
    public void close() {
        announcer.close();
    }
}
