package dev.kcp.conv.cuda;

import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.DType;

/** Device memory that one call works in between its operands: the engine's own, a graph's, or the caller's. */
interface WorkRoom extends AutoCloseable {
    /** Planes of the widest sums: four taps and the bias. */
    int MOST_PLANES = 5;

    /** Bytes of one row of BF16 channels. */
    static long rowBytes(long channels) {
        return Math.multiplyExact(channels, DType.BF16.bytes());
    }

    /** Bytes of sums between main and reduce of a batch, whatever the options: a row for each group of leaves. */
    static long sumBytes(long rows, long channels) {
        long groups = (rows + ConvProgram.GROUP_ROWS - 1) / ConvProgram.GROUP_ROWS;
        long rowBytes = Math.multiplyExact(
                channels, (long) MOST_PLANES * SiluGradPolicy.FP32.sumType().bytes());
        return Math.multiplyExact(groups, rowBytes);
    }

    /** Address of room for sums between main and reduce. */
    long sums(long bytes, long channels);

    /** Address of a row of zeros, which stands for an absent dy. */
    long zeros(long channels);

    /** Address of a row that nobody reads, which takes a dx that nobody asked for. */
    long scrap(long channels);

    /** The call that worked here has launched everything. */
    @Override
    void close();
}
