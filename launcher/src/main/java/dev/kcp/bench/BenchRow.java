package dev.kcp.bench;

import java.util.Arrays;

/**
 * One measured line.
 *
 * @param op forward, backward, step, exchange or train
 * @param tokens S
 * @param channels C
 * @param program the program that ran
 * @param threads CPU threads, or 0 on a GPU
 * @param iterations timed runs
 * @param milliseconds median of them
 * @param fastestMilliseconds the shortest
 * @param bytes least bytes that the op must read and write
 * @param floorMilliseconds these bytes at the copy speed of the same run
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

    static double median(double[] times) {
        double[] sorted = times.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
}
