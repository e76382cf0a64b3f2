package dev.kcp.launcher;

import java.util.List;

/**
 * Notices that somebody else holds the ranks' outputs open after all programs have ended: then the pumps wait, and go on
 * waiting in the same reads. It counts looks and no time: a pump that has something to pass on gets its turn between two of
 * hundreds of looks on any busy machine, and what it waited before the first look does not matter.
 */
final class HeldOutput {
    static final int LOOKS = 200;

    private List<Long> seen = List.of();
    private int looks;

    /**
     * Looks once.
     *
     * @param reads {@link WorkerProcess#outputReads} of the ranks whose output has not ended
     * @return whether so many looks in a row saw no pump move
     */
    boolean sees(List<Long> reads) {
        boolean isStill = reads.equals(seen) && !reads.contains(OutputPump.PASSING_ON);
        looks = isStill ? looks + 1 : 0;
        seen = reads;
        return looks >= LOOKS;
    }
}
