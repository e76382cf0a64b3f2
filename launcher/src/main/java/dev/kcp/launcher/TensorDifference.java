package dev.kcp.launcher;

import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * How one tensor differs between two files, bit by bit: two NaN of the same bits are equal, +0 and -0 are not.
 *
 * @param problem why the tensors cannot be compared, or null
 * @param different elements whose bits differ
 * @param first place of the first of them in storage order, or -1
 * @param firstA its value in the first file
 * @param firstB its value in the second
 * @param maxUlps the largest distance, in steps between neighbouring numbers of the type; where one is NaN and the other is
 *     not, the element counts as different and has no distance
 * @param meanUlps mean distance over all elements that have one
 * @param nans different elements of which one is NaN
 */
record TensorDifference(
        String name,
        DType dtype,
        long[] shape,
        String problem,
        long elements,
        long different,
        long first,
        double firstA,
        double firstB,
        double maxUlps,
        double meanUlps,
        double maxAbsolute,
        long nans) {
    private static final long MOST_BYTES = 8 << 20;

    boolean isEqual() {
        return problem == null && different == 0;
    }

    /** {@code token=3 channel=5} of the first difference, by the tensor's last extent. */
    String place() {
        long columns = shape[shape.length - 1];
        return switch (name) {
            case "dweight", "weight" -> "channel=" + first / columns + " tap=" + first % columns;
            case "dbias", "bias" -> "channel=" + first;
            default ->
                shape.length == 1 ? "index=" + first : "token=" + first / columns + " channel=" + first % columns;
        };
    }

    /** Why nothing was compared. */
    static TensorDifference problem(String name, String problem) {
        return new TensorDifference(name, null, new long[] {1}, problem, 0, 0, -1, 0, 0, 0, 0, 0, 0);
    }

    /** Reads both a few rows at a time. */
    static TensorDifference of(String name, Safetensors a, Safetensors b) {
        if (!a.has(name) || !b.has(name)) {
            return problem(name, a.has(name) ? "only in the first file" : "only in the second file");
        }
        if (!a.dtypeName(name).equals(b.dtypeName(name))) {
            return problem(name, "types differ: " + a.dtypeName(name) + " and " + b.dtypeName(name));
        }
        if (!Arrays.equals(a.shape(name), b.shape(name))) {
            return problem(
                    name,
                    "shapes differ: " + Arrays.toString(a.shape(name)) + " and " + Arrays.toString(b.shape(name)));
        }
        long[] shape = a.shape(name);
        if (shape.length == 0 || Arrays.stream(shape).anyMatch(extent -> extent == 0)) {
            try (Tensor one = a.read(name);
                    Tensor other = b.read(name)) {
                Tally tally = new Tally(one.dtype());
                tally.add(one.segment(), other.segment(), one.elements());
                return tally.result(name, shape.length == 0 ? new long[] {1} : shape);
            }
        }
        return byRows(name, a, b, shape);
    }

    private static TensorDifference byRows(String name, Safetensors a, Safetensors b, long[] shape) {
        DType dtype = Arrays.stream(DType.values())
                .filter(known -> known.name().equals(a.dtypeName(name)))
                .findFirst()
                .orElse(null);
        if (dtype == null) {
            return problem(name, "type " + a.dtypeName(name) + " cannot be compared");
        }
        long columns = shape[shape.length - 1];
        long rows = Arrays.stream(shape, 0, shape.length - 1).reduce(1, Math::multiplyExact);
        long step = Math.clamp(MOST_BYTES / (columns * dtype.bytes()), 1, rows);
        Tally tally = new Tally(dtype);
        try (Tensor one = Tensor.zeros(dtype, step, columns);
                Tensor other = Tensor.zeros(dtype, step, columns)) {
            for (long row = 0; row < rows; row += step) {
                long end = Math.min(rows, row + step);
                a.readRows(name, row, end, one);
                b.readRows(name, row, end, other);
                tally.add(one.segment(), other.segment(), (end - row) * columns);
            }
        }
        return tally.result(name, shape);
    }

    /** Counts over all parts of one tensor. */
    private static final class Tally {
        private final DType dtype;
        private long elements;
        private long different;
        private long first = -1;
        private double firstA;
        private double firstB;
        private double maxUlps;
        private double sumUlps;
        private double maxAbsolute;
        private long nans;

        Tally(DType dtype) {
            this.dtype = dtype;
        }

        void add(MemorySegment a, MemorySegment b, long count) {
            for (long i = 0; i < count; i++) {
                long bitsA = bits(a, i);
                long bitsB = bits(b, i);
                if (bitsA != bitsB) {
                    addDifference(elements + i, bitsA, bitsB);
                }
            }
            elements += count;
        }

        private void addDifference(long at, long bitsA, long bitsB) {
            double valueA = value(bitsA);
            double valueB = value(bitsB);
            if (different++ == 0) {
                first = at;
                firstA = valueA;
                firstB = valueB;
            }
            if (Double.isNaN(valueA) || Double.isNaN(valueB)) {
                nans++;
                return;
            }
            // As doubles: the distance of two F64 of different sign does not fit a long.
            double ulps = Math.abs((double) step(bitsA) - (double) step(bitsB));
            maxUlps = Math.max(maxUlps, ulps);
            sumUlps += ulps;
            if (valueA != valueB) {
                maxAbsolute = Math.max(maxAbsolute, Math.abs(valueA - valueB));
            }
        }

        private long bits(MemorySegment from, long i) {
            return switch (dtype) {
                case BF16 -> from.getAtIndex(ValueLayout.JAVA_SHORT, i);
                case F32, I32 -> from.getAtIndex(ValueLayout.JAVA_INT, i);
                case F64 -> from.getAtIndex(ValueLayout.JAVA_LONG, i);
            };
        }

        private double value(long bits) {
            return switch (dtype) {
                case BF16 -> BFloat16.toFloat((short) bits);
                case F32 -> Float.intBitsToFloat((int) bits);
                case F64 -> Double.longBitsToDouble(bits);
                case I32 -> bits;
            };
        }

        /** The number's place among all numbers of its type; both zeros have place 0. */
        private long step(long bits) {
            long magnitude =
                    switch (dtype) {
                        case BF16 -> bits & Short.MAX_VALUE;
                        case F32 -> bits & Integer.MAX_VALUE;
                        case F64 -> bits & Long.MAX_VALUE;
                        case I32 -> bits;
                    };
            return dtype != DType.I32 && bits < 0 ? -magnitude : magnitude;
        }

        TensorDifference result(String name, long[] shape) {
            long measured = elements - nans;
            return new TensorDifference(
                    name,
                    dtype,
                    shape,
                    null,
                    elements,
                    different,
                    first,
                    firstA,
                    firstB,
                    maxUlps,
                    measured == 0 ? 0 : sumUlps / measured,
                    maxAbsolute,
                    nans);
        }
    }
}
