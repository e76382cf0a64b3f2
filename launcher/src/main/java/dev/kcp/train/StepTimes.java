package dev.kcp.train;

/**
 * Where a step's time went on one rank, as its thread saw it.
 *
 * @param totalNanos from batch to loss
 * @param exchangeNanos of that, time in which the rank waited for others; 0 where a device's streams wait instead
 * @param optimizerNanos of that, time in the optimizer; 0 where a device runs it later
 */
public record StepTimes(long totalNanos, long exchangeNanos, long optimizerNanos) {
    /** All that is neither waiting nor optimizer. */
    public long computeNanos() {
        return totalNanos - exchangeNanos - optimizerNanos;
    }
}
