package dev.kcp.train.cuda;

import dev.kcp.cuda.CudaPrograms;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.GrowingBuffer;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.Tiles;
import java.util.ArrayList;
import java.util.List;

/**
 * The tree of {@link Tiles} on the device, over rows of sums that a program wrote. {@code sum(n rows) = sum(first 2^k rows)
 * + sum(the others)}; 16 rows are added in one launch.
 */
final class TreeSums implements AutoCloseable {
    /** Rows that one launch adds, in train.cu as here. */
    static final int FAN_IN = 16;

    /** Most rows of a leaf, in train.cu as here. */
    static final int LEAF_ROWS = 64;

    private static final int FLOATS_OF_A_THREAD = 4;

    private final CudaStream stream;
    private final CudaPrograms programs;
    private final List<GrowingBuffer> between;

    TreeSums(CudaStream stream, CudaPrograms programs) {
        this.stream = stream;
        this.programs = programs;
        between = new ArrayList<>(List.of(new GrowingBuffer(stream), new GrowingBuffer(stream)));
    }

    /** Leaves of a tile of so many rows. */
    private static int leaves(int rows) {
        return (rows + LEAF_ROWS - 1) / LEAF_ROWS;
    }

    /** Leaves of tiles {@code [0, tileEnd)}; those of a tile follow one another, and tiles do. */
    static long leaves(Tiles tiles, int tileEnd) {
        if (tileEnd == 0) {
            return 0;
        }
        int last = tileEnd - 1;
        return (long) last * leaves(tiles.tileRows()) + leaves(tiles.rowEnd(last) - tiles.rowBegin(last));
    }

    /**
     * Fills the nodes' sums from those of all leaves.
     *
     * @param leaves address of {@code [leaves, elements]}, dense
     * @param sums FP32 or FP64 {@code [nodes, elements]}
     */
    void nodes(Tiles tiles, long leaves, Tensor sums) {
        long rowBytes = sums.columns() * sums.dtype().bytes();
        for (int i = 0; i < tiles.nodes().size(); i++) {
            Tiles.Node node = tiles.nodes().get(i);
            if (node.tileBegin() == node.tileEnd()) {
                stream.fill(sums.rowAddress(i), (byte) 0, rowBytes);
                continue;
            }
            long begin = (long) node.tileBegin() * leaves(tiles.tileRows());
            long rows = leaves(tiles, node.tileEnd()) - begin;
            sum(
                    sums.dtype(),
                    leaves + begin * rowBytes,
                    rows,
                    leaves(tiles.tileRows()),
                    sums.columns(),
                    sums.rowAddress(i));
        }
    }

    /**
     * Adds rows: first those of each segment, then segments.
     *
     * @param from address of {@code [rows, elements]}, dense, elements a multiple of 4 where FP32
     * @param perSegment rows of every segment but the last, which may have fewer
     */
    void sum(DType dtype, long from, long rows, long perSegment, long elements, long to) {
        long rowBytes = elements * dtype.bytes();
        long left = rows;
        long per = Math.min(perSegment, rows);
        long source = from;
        for (int turn = 0; left > 1; turn++) {
            per = per == 1 ? left : per;
            long groups = (per + FAN_IN - 1) / FAN_IN;
            long segments = (left + per - 1) / per;
            long lastRows = left - (segments - 1) * per;
            long made = (segments - 1) * groups + (lastRows + FAN_IN - 1) / FAN_IN;
            long target = made == 1 ? to : between.get(turn % 2).address(made * rowBytes);
            launch(dtype, source, target, elements, left, per, made);
            left = made;
            per = groups;
            source = target;
        }
        if (rows == 1) {
            stream.copy(from, to, rowBytes);
        }
    }

    private void launch(DType dtype, long from, long to, long elements, long rows, long per, long made) {
        boolean doubles = dtype == DType.F64;
        long threads = doubles ? elements : elements / FLOATS_OF_A_THREAD;
        long blocksPerRow = (threads + CudaTrainEngine.BLOCK_THREADS - 1) / CudaTrainEngine.BLOCK_THREADS;
        programs.set(from, to, elements, rows, per, blocksPerRow)
                .launch(
                        doubles ? "train_tree_double" : "train_tree_float",
                        made * blocksPerRow,
                        CudaTrainEngine.BLOCK_THREADS);
    }

    /** {@code left += right}. */
    void add(DType dtype, long left, long right, long elements) {
        programs.set(left, right, elements)
                .launch(
                        dtype == DType.F64 ? "train_add_double" : "train_add_float",
                        (elements + CudaTrainEngine.BLOCK_THREADS - 1) / CudaTrainEngine.BLOCK_THREADS,
                        CudaTrainEngine.BLOCK_THREADS);
    }

    @Override
    public void close() {
        CloseStack.closeAll(between);
    }
}
