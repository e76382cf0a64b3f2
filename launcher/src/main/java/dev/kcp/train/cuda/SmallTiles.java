package dev.kcp.train.cuda;

import dev.kcp.cuda.CudaPrograms;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.GrowingBuffer;
import dev.kcp.tensor.CloseStack;
import dev.kcp.train.Tiles;
import dev.kcp.train.cuda.TileProducts.Pair;
import java.util.List;

/**
 * Sums over short tiles, sixteen tiles at a time: cuBLAS would write each tile's sums to memory, which for tiles of 64 rows
 * takes ten times as long as the arithmetic.
 */
final class SmallTiles implements AutoCloseable {
    /** Longer tiles are left to cuBLAS, whose products are faster. */
    private static final int MOST_TILE_ROWS = 256;

    static final int ARGUMENT_WORDS = 16;

    /** As in train_products.cu: a block's part of K x M, its threads, and the rows that it loads ahead. */
    static final int BLOCK_K = 128;

    static final int BLOCK_M = 64;
    static final int BLOCK_THREADS = 256;
    static final int SHARED_BYTES = 4 * 64 * (BLOCK_K + BLOCK_M) * 2;

    private final CudaPrograms programs;
    private final GrowingBuffer owed;

    SmallTiles(CudaStream stream) {
        programs = CudaPrograms.load(SmallTiles.class, stream, "train_products", ARGUMENT_WORDS);
        owed = new GrowingBuffer(stream);
    }

    /** Whether tiles are of a length that this program is for. */
    boolean serves(Tiles tiles) {
        return tiles.tileRows() <= MOST_TILE_ROWS && tiles.tileRows() % TreeSums.LEAF_ROWS == 0;
    }

    /**
     * Writes a sum for each sixteen tiles, the last perhaps of fewer.
     *
     * @param pairs one or two, added inside each tile
     * @param to address of FP32 {@code [sums, K * M]}
     */
    void sums(Tiles tiles, int tileBegin, int tileEnd, List<Pair> pairs, long to) {
        long k = pairs.getFirst().x().columns();
        long m = pairs.getFirst().dy().columns();
        Pair second = pairs.size() > 1 ? pairs.get(1) : null;
        long groups = (tileEnd - tileBegin + TreeSums.FAN_IN - 1) / TreeSums.FAN_IN;
        long blocks = groups * ((k + BLOCK_K - 1) / BLOCK_K) * ((m + BLOCK_M - 1) / BLOCK_M);
        programs.set(
                        pairs.getFirst().x().address(),
                        pairs.getFirst().dy().address(),
                        second == null ? 0 : second.x().address(),
                        second == null ? 0 : second.dy().address(),
                        to,
                        owed.address(groups * k * m * Float.BYTES),
                        tiles.rowBegin(tileBegin),
                        tiles.rowEnd(tileEnd - 1),
                        tiles.tileRows(),
                        k,
                        m)
                .launch("train_small_tiles", blocks, BLOCK_THREADS, SHARED_BYTES);
    }

    @Override
    public void close() {
        CloseStack.closeAll(programs, owed);
    }
}
