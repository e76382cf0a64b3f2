package dev.kcp.tensor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import java.util.Random;
import org.junit.jupiter.api.Test;

class OverlapTest {
    /** The addresses are compared and never read. */
    private static final Memory BUFFER = Memory.borrow(Device.CPU, 1 << 20, 1L << 46);

    private static Tensor columns(long firstColumn, long columns, long pitch, long rows) {
        return Tensor.pitched(BUFFER, firstColumn * 2, DType.BF16, rows, columns, pitch);
    }

    @Test
    void columnsOfOneFusedProjectionDoNotOverlap() {
        Tensor q = columns(0, 64, 192, 100_000);
        Tensor k = columns(64, 64, 192, 100_000);
        assertFalse(q.overlaps(k));
        assertFalse(k.overlaps(q));
        assertTrue(q.overlaps(columns(63, 64, 192, 100_000)));
        assertTrue(q.overlaps(q));
    }

    @Test
    void rowsThatMeetOnlyFarFromBothStarts() {
        // Starts are 8 columns apart in the first row and one column nearer in each later one.
        Tensor wide = columns(0, 8, 100, 1 << 20);
        assertTrue(wide.overlaps(columns(15, 8, 99, 9)));
        assertFalse(wide.overlaps(columns(15, 8, 99, 8)));
        assertFalse(wide.overlaps(columns(8, 8, 200, 1 << 20)));
        assertTrue(wide.overlaps(columns(8, 8, 201, 1 << 20)));
    }

    @Test
    void nothingOverlapsEmptyTensorsOrOtherDevices() {
        Tensor row = columns(0, 8, 8, 1);
        assertFalse(row.overlaps(columns(0, 8, 8, 0)));
        assertFalse(columns(0, 0, 8, 5).overlaps(row));
        Tensor elsewhere = Tensor.over(Memory.borrow(new Device(Device.Kind.CUDA, 0), 1 << 20, 16), DType.BF16, 1, 8);
        assertFalse(row.overlaps(elsewhere));
    }

    @Test
    void neighboursTouchWithoutOverlap() {
        assertFalse(columns(0, 8, 8, 4).overlaps(columns(32, 8, 8, 4)));
        assertTrue(columns(0, 8, 8, 4).overlaps(columns(31, 8, 8, 4)));
    }

    @Test
    void aBillionRowsOfDifferentPitch() {
        // 3 * 2^30 rows; pitches of 16 and 24 columns meet only in the multiples of 8 columns that both hold.
        assertFalse(columns(0, 8, 16, 3L << 30).overlaps(columns(8, 8, 32, 1L << 30)));
        assertTrue(columns(0, 8, 16, 3L << 30).overlaps(columns(8, 8, 24, 1L << 30)));
    }

    @Test
    void everySmallGeometryAsByCounting() {
        Random random = new Random(5);
        int overlapping = 0;
        for (int i = 0; i < 20_000; i++) {
            Tensor a = random(random);
            Tensor b = random(random);
            boolean expected = bytes(a).intersects(bytes(b));
            assertEquals(expected, a.overlaps(b), () -> a + " and " + b);
            overlapping += expected ? 1 : 0;
        }
        assertTrue(overlapping > 3_000 && overlapping < 17_000, "overlapping=" + overlapping);
    }

    private static Tensor random(Random random) {
        int columns = random.nextInt(5);
        return columns(random.nextInt(60), columns, columns + random.nextInt(20), random.nextInt(8));
    }

    private static BitSet bytes(Tensor tensor) {
        BitSet bytes = new BitSet();
        for (long row = 0; row < tensor.rows(); row++) {
            int begin = (int) (tensor.rowAddress(row) - BUFFER.address());
            bytes.set(begin, begin + (int) tensor.columns() * 2);
        }
        return bytes;
    }
}
