package dev.kcp.bench;

import java.util.Arrays;

/**
 * One measured line.
 *
 * @param op forward, backward, step, step+reduce, exchange or train
 * @param tokens S; 1 for an exchange
 * @param channels C; for an exchange, the bytes that a rank sends
 * @param program the program that ran
 * @param threads CPU threads, or 0 on a GPU
 * @param iterations timed runs
 * @param milliseconds median of them
 * @param fastestMilliseconds the shortest
 * @param bytes least bytes that the op must read and write; what a step's or an exchange's rank sends
 * @param floorMilliseconds forward and backward: these bytes at the copy speed of the same run; a step: the single-rank op
 *     of as many tokens; an exchange: a copy of as many bytes
 */
public record BenchRow(
        String op,
        long tokens,
        long channels,
        int documents,
        String program,
        int threads,
        int iterations,
        double milliseconds,
        double fastestMilliseconds,
        long bytes,
        double floorMilliseconds) {

    /** How many times the floor the median is. */
    public double ratio() {
        return milliseconds / floorMilliseconds;
    }

    /** Whether this is an exchange, which has bytes but no shape. */
    boolean isExchange() {
        return op.equals("exchange");
    }

    static double median(double[] times) {
        double[] sorted = times.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
}
