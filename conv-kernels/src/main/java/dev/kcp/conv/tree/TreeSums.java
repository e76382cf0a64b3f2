package dev.kcp.conv.tree;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;

/** Arithmetic on the sums of the reduction tree, FP32 or FP64, in host memory. */
public final class TreeSums {
    private TreeSums() {}

    /** left += right: one addition of two nodes, at addresses that the caller has checked. */
    public static void add(DType type, long left, long right, long elements) {
        for (long i = 0; i < elements; i++) {
            if (type == DType.F64) {
                long at = i * Double.BYTES;
                double sum = HostMemory.ALL.get(ValueLayout.JAVA_DOUBLE, left + at)
                        + HostMemory.ALL.get(ValueLayout.JAVA_DOUBLE, right + at);
                HostMemory.ALL.set(ValueLayout.JAVA_DOUBLE, left + at, sum);
            } else {
                long at = i * Float.BYTES;
                float sum = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, left + at)
                        + HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, right + at);
                HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, left + at, sum);
            }
        }
    }

    /**
     * The one rounding of dweight and dbias: from the tree's root to the type that was asked for, in tensors that the caller
     * has checked.
     *
     * @param sums FP32 or FP64 {@code [1, planes, C]} on the host, or with no node {@code [0, planes, C]}: zeros
     * @param dweight FP32 or BF16 {@code [C, 4]}, or null
     * @param dbias FP32 or BF16 {@code [C]}, or null
     */
    public static void store(Tensor sums, Tensor dweight, Tensor dbias) {
        boolean empty = sums.extent(0) == 0;
        for (long c = 0; c < sums.columns(); c++) {
            for (int k = 0; k < 4 && dweight != null; k++) {
                put(dweight, dweight.rowAddress(c), k, empty ? 0 : get(sums, k, c));
            }
            if (dbias != null) {
                put(dbias, dbias.address(), c, empty ? 0 : get(sums, 4, c));
            }
        }
    }

    private static double get(Tensor sums, int plane, long channel) {
        long row = sums.rowAddress(plane);
        return sums.dtype() == DType.F64
                ? HostMemory.ALL.get(ValueLayout.JAVA_DOUBLE, row + channel * Double.BYTES)
                : HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, row + channel * Float.BYTES);
    }

    /** A NaN is stored as one number: its sign and digits would tell in which order it was made. */
    private static void put(Tensor tensor, long address, long index, double sum) {
        double value = sum == sum ? sum : Double.NaN;
        if (tensor.dtype() == DType.F32) {
            HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, address + index * Float.BYTES, (float) value);
        } else {
            HostMemory.ALL.set(ValueLayout.JAVA_SHORT, address + index * Short.BYTES, BFloat16.fromDouble(value));
        }
    }
}
