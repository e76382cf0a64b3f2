package dev.kcp.tensor;

/**
 * The bytes of a tensor: runs of {@code rowBytes} whose starts lie {@code pitchBytes} apart.
 *
 * @param begin address of the first byte
 */
record ByteRows(long begin, long pitchBytes, long rowBytes, long rows) {
    /** Rows without gaps are one run, and a tensor without elements is none. */
    static ByteRows of(Tensor tensor) {
        long rowBytes = tensor.columns() * tensor.dtype().bytes();
        long begin = tensor.address();
        if (tensor.isDense()) {
            long bytes = tensor.rows() * rowBytes;
            return new ByteRows(begin, bytes, bytes, bytes == 0 ? 0 : 1);
        }
        return new ByteRows(begin, tensor.pitchBytes(), rowBytes, rowBytes == 0 ? 0 : tensor.rows());
    }

    /** One past the last byte. */
    private long end() {
        return begin + (rows - 1) * pitchBytes + rowBytes;
    }

    /** Whether a byte belongs to both: decided exactly, in the time of a greatest common divisor. */
    boolean overlaps(ByteRows other) {
        if (rows == 0 || other.rows == 0 || end() <= other.begin || other.end() <= begin) {
            return false;
        }
        // Row j of the other, at v = distance + j * pitch, meets row i of this one where v - rowBytes < i * pitchBytes
        // <
        // v + other.rowBytes. First those j for which such an i is neither before row 0 nor after the last row.
        long distance = other.begin - begin;
        long first = Math.max(0, Math.ceilDiv(1 - other.rowBytes - distance, other.pitchBytes));
        long last = Math.min(other.rows - 1, Math.floorDiv(end() - begin - 1 - distance, other.pitchBytes));
        long count = last - first + 1;
        if (count <= 0) {
            return false;
        }
        long at = distance + first * other.pitchBytes;
        return floorSum(count, other.pitchBytes, at + other.rowBytes - 1)
                != floorSum(count, other.pitchBytes, at - rowBytes);
    }

    /** Sum of floor((b + j * a) / pitchBytes) over j in [0, count), modulo 2^64. */
    private long floorSum(long count, long a, long b) {
        long n = count;
        long m = pitchBytes;
        long sum = 0;
        long slope = a;
        long start = b;
        while (true) {
            sum += Math.floorDiv(start, m) * n + Math.floorDiv(slope, m) * (n * (n - 1) / 2);
            start = Math.floorMod(start, m);
            slope = Math.floorMod(slope, m);
            long top = slope * n + start;
            if (top < m) {
                return sum;
            }
            // The same points counted along the other axis: a step of Euclid's algorithm.
            n = top / m;
            start = top % m;
            long swapped = slope;
            slope = m;
            m = swapped;
        }
    }
}
