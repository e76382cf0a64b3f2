package dev.kcp.core;

/**
 * Halo exchanges that one {@link KcpConv1d} made, as collective calls: counted also where no rank had a row to send.
 *
 * @param forward in phase FORWARD
 * @param recompute in phase RECOMPUTE, because the handle had nothing stored
 * @param backward of g rows
 */
public record ExchangeCounts(long forward, long recompute, long backward) {
    /** Nothing exchanged yet. */
    public static final ExchangeCounts NONE = new ExchangeCounts(0, 0, 0);

    /** The sum of both, number by number. */
    public ExchangeCounts plus(ExchangeCounts more) {
        return new ExchangeCounts(forward + more.forward, recompute + more.recompute, backward + more.backward);
    }

    /** What was counted since. */
    public ExchangeCounts since(ExchangeCounts earlier) {
        return new ExchangeCounts(
                forward - earlier.forward, recompute - earlier.recompute, backward - earlier.backward);
    }

    ExchangeCounts plusForward(Phase phase) {
        return phase == Phase.FORWARD
                ? new ExchangeCounts(forward + 1, recompute, backward)
                : new ExchangeCounts(forward, recompute + 1, backward);
    }

    ExchangeCounts plusBackward() {
        return new ExchangeCounts(forward, recompute, backward + 1);
    }
}
