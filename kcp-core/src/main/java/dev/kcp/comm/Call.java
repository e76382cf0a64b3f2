package dev.kcp.comm;

import dev.kcp.tensor.DType;
import java.util.Objects;

/**
 * What a rank believes a collective to be; every rank of the group must believe the same. The communicator adds the
 * call's number and compares.
 *
 * @param kind which collective
 * @param label the layer or purpose, as users know it, for example {@code layer3.conv forward}
 * @param channels elements of one row, or 0 where rows mean nothing
 * @param dtype type of the elements, or null where there are none
 * @param planDigest digest of the plan that both ends walk, or 0 where there is none
 */
public record Call(Kind kind, String label, long channels, DType dtype, long planDigest) {
    /** Kinds of collectives. */
    public enum Kind {
        /** History rows to their readers. */
        HALO_FORWARD,
        /** Rows of g to the owners of the history. */
        HALO_BACKWARD,
        /** Any other grouped sends and receives. */
        EXCHANGE,
        /** A sum over all ranks, in rank order. */
        ALL_REDUCE,
        /** Every rank's part to every rank. */
        ALL_GATHER,
        /** Nothing but the wait for all. */
        BARRIER,
        /** A subgroup is made. */
        SPLIT,
        /** A captured graph, launched by every rank. */
        REPLAY
    }

    /** @throws IllegalArgumentException if channels are negative */
    public Call {
        Objects.requireNonNull(kind, "kind");
        Objects.requireNonNull(label, "label");
        if (channels < 0) {
            throw new IllegalArgumentException("negative channels: channels=" + channels);
        }
    }

    /** A call without rows or a plan. */
    public static Call of(Kind kind, String label) {
        return new Call(kind, label, 0, null, 0);
    }

    /**
     * An all-reduce.
     *
     * @param address of the first element
     * @throws IllegalArgumentException if the elements are neither FP32 nor FP64, or fewer than none, or have no address
     */
    public static Call ofSum(String label, DType dtype, long address, long elements) {
        if (elements < 0 || elements > Long.MAX_VALUE / Double.BYTES || dtype != DType.F32 && dtype != DType.F64) {
            throw new IllegalArgumentException(
                    "a sum is of FP32 or FP64 elements: label=" + label + " dtype=" + dtype + " elements=" + elements);
        }
        Segment.checkMemory(address, elements * dtype.bytes());
        return new Call(Kind.ALL_REDUCE, label, elements, dtype, 0);
    }

    @Override
    public String toString() {
        return kind + " \"" + label + "\" channels=" + channels + " dtype=" + dtype + " plan="
                + Long.toHexString(planDigest);
    }
}
