package dev.kcp.conv.cuda;

import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.cuda.CallArguments.Field;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.PinnedBlocks;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.function.LongSupplier;

/**
 * A shard on the device: either a whole batch, known by its offsets' address alone, or tables copied there in stream order.
 * Not used by two threads at once.
 */
final class CudaShard implements Shard {
    private static final int GROUP_ROWS = ConvProgram.GROUP_ROWS;

    /** Offsets of a batch, or the words of the tables. */
    private final LongSupplier beginAddress;

    private final int fragments;
    private final int rows;
    private final Memory words;
    private ShardTables tables;
    private ShardImage image;
    private PinnedBlocks.Block staging;
    private boolean closed;

    private CudaShard(
            LongSupplier beginAddress,
            int fragments,
            int rows,
            ShardTables tables,
            ShardImage image,
            Memory words,
            PinnedBlocks.Block staging) {
        this.beginAddress = beginAddress;
        this.fragments = fragments;
        this.rows = rows;
        this.tables = tables;
        this.image = image;
        this.words = words;
        this.staging = staging;
    }

    /** Whole documents; contents of the offsets are read by the kernels only. */
    static CudaShard batch(Tensor cuSeqlens, int rows) {
        int documents = (int) cuSeqlens.columns() - 1;
        return new CudaShard(cuSeqlens::address, documents, rows, null, null, null, null);
    }

    static CudaShard of(ShardTables tables, int fragments, CudaStream stream, PinnedBlocks pinned) {
        ShardImage image = new ShardImage(tables, fragments);
        Memory words = stream.allocate((long) image.words().length * Integer.BYTES);
        PinnedBlocks.Block staging = copy(image, words, stream, pinned);
        return new CudaShard(words::address, fragments, tables.rows(), tables, image, words, staging);
    }

    private static PinnedBlocks.Block copy(ShardImage image, Memory words, CudaStream stream, PinnedBlocks pinned) {
        int[] host = image.words();
        long bytes = (long) host.length * Integer.BYTES;
        PinnedBlocks.Block staging = pinned.take(bytes);
        MemorySegment.copy(MemorySegment.ofArray(host), 0, HostMemory.ALL, staging.address(), bytes);
        stream.copyToDevice(staging.address(), words.address(), bytes);
        staging.use(stream);
        return staging;
    }

    /** Puts another batch's tables in the place of these. */
    void update(ShardTables next, CudaStream stream, PinnedBlocks pinned) {
        checkOpen();
        if (next.rows() != rows || next.headRows() != tables.headRows() || next.tailRows() != tables.tailRows()) {
            throw new IllegalArgumentException("another shape of shard: rows=" + rows + "," + next.rows()
                    + " headRows=" + tables.headRows() + "," + next.headRows() + " tailRows=" + tables.tailRows() + ","
                    + next.tailRows());
        }
        ShardImage replacing = new ShardImage(next, fragments);
        if (!replacing.isLaidOutAs(image)) {
            throw new IllegalArgumentException("other tokens of the packed batch: packedTokens=" + tables.packedTokens()
                    + "," + next.packedTokens());
        }
        PinnedBlocks.Block old = staging;
        staging = copy(replacing, words, stream, pinned);
        old.giveBack();
        tables = next;
        image = replacing;
    }

    boolean hasTables() {
        return tables != null;
    }

    @Override
    public int rows() {
        return rows;
    }

    /** Fragments, and room for more, which count as empty. */
    int fragments() {
        return fragments;
    }

    /** Blocks of backward per column of channels. */
    long groups() {
        return hasTables() ? image.groups() : Math.ceilDiv(rows, GROUP_ROWS);
    }

    /** Rows of sums between main and reduce. */
    long scratchRows() {
        return hasTables() ? image.scratchRows() : groups();
    }

    /** Sums that reduce makes. */
    int ranges() {
        return hasTables() ? image.ranges() : 1;
    }

    private void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the shard was closed: fragments=" + fragments);
        }
    }

    void set(CallArguments arguments) {
        checkOpen();
        long begin = beginAddress.getAsLong();
        arguments.set(Field.BEGIN, begin);
        arguments.set(Field.FRAGMENTS, fragments);
        if (hasTables()) {
            arguments.set(Field.HISTORY_ROW, word(begin, image.historyRow));
            arguments.set(Field.OWED_ROW, word(begin, image.owedRow));
            arguments.set(Field.HEAD_BEGIN, word(begin, image.headBegin));
            arguments.set(Field.TAIL_BEGIN, word(begin, image.tailBegin));
            arguments.set(Field.SEGMENTS, word(begin, image.segmentsAt));
            arguments.set(Field.SEGMENT_BEGIN, word(begin, image.segmentBeginAt));
            arguments.set(Field.PIECES, word(begin, image.piecesAt));
            arguments.set(Field.PIECE_BEGIN, word(begin, image.pieceBeginAt));
            arguments.set(Field.RANGES, word(begin, image.rangesAt));
        }
    }

    private static long word(long begin, int index) {
        return begin + (long) index * Integer.BYTES;
    }

    @Override
    public int historyRows() {
        return hasTables() ? tables.historyRows() : 0;
    }

    @Override
    public int receivedRows() {
        return hasTables() ? tables.receivedRows() : 0;
    }

    @Override
    public int headRows() {
        return hasTables() ? tables.headRows() : 0;
    }

    @Override
    public int tailRows() {
        return hasTables() ? tables.tailRows() : 0;
    }

    @Override
    public int nodeCount() {
        return hasTables() ? tables.nodeCount() : rows > 0 ? 1 : 0;
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            if (hasTables()) {
                words.close();
                staging.giveBack();
            }
        }
    }
}
