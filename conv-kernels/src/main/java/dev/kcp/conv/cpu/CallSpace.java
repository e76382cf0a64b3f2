package dev.kcp.conv.cpu;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/**
 * What one call keeps beside its operands, one part after another: the taps' planes, a row of zeros, and in backward of a
 * whole batch the root of its sums.
 *
 * @param planes address of the taps as {@link Taps} lays them out
 * @param zeros address of C FP32 zeros
 */
record CallSpace(long channels, long planes, long zeros) {
    /** Bytes without a root of sums. */
    static long bytes(long channels) {
        return Math.addExact(Taps.bytes(channels), Math.multiplyExact(channels, Float.BYTES));
    }

    /** Bytes with the root of sums, of either policy. */
    static long bytesWithSums(long channels) {
        long rootBytes = Math.multiplyExact(
                channels, (long) Taps.PLANES * SiluGradPolicy.FP32.sumType().bytes());
        return Math.addExact(bytes(channels), rootBytes);
    }

    /** Fills the taps and the zeros into memory of at least {@link #bytes}. */
    static CallSpace fill(Memory memory, Operands in) {
        long channels = in.channels();
        long planes = memory.address();
        long zeros = planes + Taps.bytes(channels);
        Taps.fill(planes, in.weight(), in.bias());
        HostMemory.zero(zeros, channels * Float.BYTES);
        return new CallSpace(channels, planes, zeros);
    }

    /** Room for sums of a batch, {@code [nodes, planes, C]}, in memory of at least {@link #bytesWithSums}. */
    static Tensor sums(Memory memory, DType type, long nodes, long planes, long channels) {
        return Tensor.over(memory, bytes(channels), type, nodes, planes, channels);
    }
}
