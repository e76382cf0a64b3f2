package dev.kcp.train.cuda;

import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.GrowingBuffer;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.Tiles;
import java.util.ArrayList;
import java.util.List;

/**
 * Matrix products by tile. What a full tile gives depends on its rows and the operands' shapes alone: algorithms are chosen
 * by shapes that are the same whatever number of tiles a rank has. The batch's last tile, which may be shorter, is a
 * product of its own.
 */
final class TileProducts implements AutoCloseable {
    /** Rows that a product by rows is laid out for. */
    private static final int USUAL_ROWS = 8192;

    /** Tiles at least so long may have their sum cut by cuBLAS, in equal parts: alone they would not fill a GPU. */
    private static final int LONG_TILE_ROWS = 8192;

    /** Rows from which on products of single tiles fill a GPU. */
    private static final int FILLING_ROWS = 16384;

    private static final long MOST_GROUP_BYTES = 512L << 20;

    private final CudaStream stream;
    private final Cublas cublas;
    private final TreeSums tree;
    private final SmallTiles small;
    private final GrowingBuffer tileSums;
    private final List<GrowingBuffer> levels = new ArrayList<>();

    TileProducts(CudaStream stream, Cublas cublas, TreeSums tree) {
        this.stream = stream;
        this.cublas = cublas;
        this.tree = tree;
        small = new SmallTiles(stream);
        tileSums = new GrowingBuffer(stream);
    }

    /**
     * {@code y = x w} or {@code x w^T}, plus what is to be added.
     *
     * @param plus BF16 as y, or null
     */
    void byRow(Tiles tiles, Tensor x, Tensor weight, boolean transposed, Tensor plus, Tensor y) {
        int inFullTiles = tiles.rows() / tiles.tileRows() * tiles.tileRows();
        byRow(0, inFullTiles, x, weight, transposed, plus, y);
        byRow(inFullTiles, tiles.rows(), x, weight, transposed, plus, y);
    }

    private void byRow(int begin, int end, Tensor x, Tensor weight, boolean transposed, Tensor plus, Tensor y) {
        int rows = end - begin;
        if (rows == 0) {
            return;
        }
        Product product = Product.of(y.columns(), rows, x.columns(), transposed, false, DType.BF16);
        Cublas.Choice choice = rows % TreeSums.LEAF_ROWS == 0
                ? new Cublas.Choice(product.withColumns(USUAL_ROWS), product.withColumns(TreeSums.LEAF_ROWS), false)
                : new Cublas.Choice(product, product, false);
        cublas.run(
                product,
                choice,
                weight.address(),
                x.rowAddress(begin),
                plus != null,
                plus == null ? 0 : plus.rowAddress(begin),
                y.rowAddress(begin));
    }

    /** Operands of {@code x^T dy}. */
    record Pair(Tensor x, Tensor dy) {}

    /**
     * Fills the nodes' sums with those of tiles: {@code x^T dy} of the first pair, and then of the others.
     *
     * @param sums FP32 {@code [nodes, K * M]}
     */
    void summed(Tiles tiles, List<Pair> pairs, Tensor sums) {
        for (int i = 0; i < tiles.nodes().size(); i++) {
            Tiles.Node node = tiles.nodes().get(i);
            if (node.tileBegin() == node.tileEnd()) {
                stream.fill(sums.rowAddress(i), (byte) 0, sums.columns() * Float.BYTES);
            } else {
                sum(tiles, node.tileBegin(), node.tileEnd(), pairs, sums.columns(), sums.rowAddress(i));
            }
        }
    }

    /** Sums of tiles, or of 16 tiles, that are made at once; a power of two, so that together they are a node of the tree. */
    private static int groupTiles(long elements) {
        int tiles = TreeSums.FAN_IN;
        while (tiles > 1 && tiles * elements * Float.BYTES > MOST_GROUP_BYTES) {
            tiles /= 2;
        }
        return tiles;
    }

    private void sum(Tiles tiles, int begin, int end, List<Pair> pairs, long elements, long to) {
        int count = end - begin;
        int tilesOfSum = small.serves(tiles) ? TreeSums.FAN_IN : 1;
        if (count <= groupTiles(elements) * tilesOfSum) {
            int sums = (count + tilesOfSum - 1) / tilesOfSum;
            long made = sums == 1 ? to : tileSums.address(groupTiles(elements) * elements * Float.BYTES);
            if (tilesOfSum > 1) {
                small.sums(tiles, begin, end, pairs, made);
            } else {
                group(tiles, begin, end, pairs, elements, made);
            }
            if (sums > 1) {
                tree.sum(DType.F32, made, sums, sums, elements, to);
            }
            return;
        }
        int left = Integer.highestOneBit(count - 1);
        sum(tiles, begin, begin + left, pairs, elements, to);
        long right = level(Integer.numberOfTrailingZeros(left), elements * Float.BYTES);
        sum(tiles, begin + left, end, pairs, elements, right);
        tree.add(DType.F32, to, right, elements);
    }

    private long level(int level, long bytes) {
        while (levels.size() <= level) {
            levels.add(new GrowingBuffer(stream));
        }
        return levels.get(level).address(bytes);
    }

    /** Writes the sums of each tile. */
    private void group(Tiles tiles, int begin, int end, List<Pair> pairs, long elements, long to) {
        boolean lastIsShort = tiles.rowEnd(end - 1) - tiles.rowBegin(end - 1) < tiles.tileRows();
        int full = lastIsShort ? end - 1 : end;
        for (int i = 0; i < pairs.size(); i++) {
            Pair pair = pairs.get(i);
            if (full > begin) {
                product(pair, tiles.rowBegin(begin), tiles.tileRows(), full - begin, i > 0, to);
            }
            if (lastIsShort) {
                int row = tiles.rowBegin(full);
                product(pair, row, tiles.rowEnd(full) - row, 1, i > 0, to + (full - begin) * elements * Float.BYTES);
            }
        }
    }

    private void product(Pair pair, int row, int rows, int count, boolean adds, long to) {
        long k = pair.x().columns();
        long m = pair.dy().columns();
        Product usual =
                new Product(m, k, rows, false, true, DType.F32, usualCount(rows, k * m), rows * m, rows * k, k * m);
        cublas.run(
                usual.withBatch(count),
                new Cublas.Choice(usual, usual.withBatch(1), rows >= LONG_TILE_ROWS),
                pair.dy().rowAddress(row),
                pair.x().rowAddress(row),
                adds,
                to,
                to);
    }

    private static int usualCount(int rows, long elements) {
        return Math.clamp(FILLING_ROWS / rows, 1, groupTiles(elements));
    }

    @Override
    public void close() {
        try (CloseStack owned = new CloseStack()) {
            owned.push(tileSums);
            levels.forEach(owned::push);
            owned.push(small);
        }
    }
}
