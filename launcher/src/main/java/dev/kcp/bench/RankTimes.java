package dev.kcp.bench;

import dev.kcp.comm.Communicator;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Times of the slowest rank.
 *
 * @param median milliseconds of a run
 * @param fastest milliseconds of the shortest run
 */
record RankTimes(double median, double fastest) {
    /** Times a body on every rank, all at once. A collective call. */
    static RankTimes measure(Communicator communicator, RankClock clock, Runnable body, int warmRuns, int runs) {
        clock.millis(body, warmRuns);
        communicator.barrier("bench");
        double[] millis = clock.millis(body, runs);
        byte[] mine = ByteBuffer.allocate(2 * Double.BYTES)
                .putDouble(BenchRow.median(millis))
                .putDouble(Arrays.stream(millis).min().orElseThrow())
                .array();
        double median = 0;
        double fastest = 0;
        for (byte[] one : communicator.host().allGather("bench", mine)) {
            ByteBuffer times = ByteBuffer.wrap(one);
            median = Math.max(median, times.getDouble());
            fastest = Math.max(fastest, times.getDouble());
        }
        return new RankTimes(median, fastest);
    }

    /** Of one of several equal parts of a run. */
    RankTimes of(int parts) {
        return new RankTimes(median / parts, fastest / parts);
    }
}
