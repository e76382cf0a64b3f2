package dev.kcp.conv.cuda;

import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.cuda.KernelArguments.Field;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.PinnedBlocks;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.lang.foreign.MemorySegment;

/**
 * A shard on the device: either a whole batch, known by its offsets' address alone, or tables copied there in stream order.
 * Not used by two threads at once.
 */
final class CudaShard implements Shard {
    private static final int GROUP_ROWS = ConvProgram.GROUP_ROWS;

    private final long beginAddress;
    private final int fragments;
    private final long rows;
    private final Memory words;
    private ShardTables tables;
    private ShardImage image;
    private PinnedBlocks.Block staging;
    private boolean closed;

    private CudaShard(
            long beginAddress,
            int fragments,
            long rows,
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
    static CudaShard batch(long cuSeqlensAddress, int documents, long rows) {
        return new CudaShard(cuSeqlensAddress, documents, rows, null, null, null, null);
    }

    static CudaShard of(ShardTables tables, int fragments, CudaStream stream, PinnedBlocks pinned) {
        ShardImage image = new ShardImage(tables, fragments);
        Memory words = stream.allocate((long) image.words().length * Integer.BYTES);
        PinnedBlocks.Block staging = copy(image, words, stream, pinned);
        return new CudaShard(words.address(), fragments, tables.rows(), tables, image, words, staging);
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

    /** Rows that belong to fragments; of a batch, the most that may. */
    long rows() {
        return rows;
    }

    /** Fragments, and room for more, which count as empty. */
    int fragments() {
        return fragments;
    }

    /** Blocks of backward per column of channels. */
    long groups() {
        return hasTables() ? image.groups() : (rows + GROUP_ROWS - 1) / GROUP_ROWS;
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

    void set(KernelArguments arguments) {
        checkOpen();
        arguments.set(Field.BEGIN, beginAddress);
        arguments.set(Field.FRAGMENTS, fragments);
        if (hasTables()) {
            arguments.set(Field.HISTORY_ROW, word(image.historyRow));
            arguments.set(Field.OWED_ROW, word(image.owedRow));
            arguments.set(Field.HEAD_BEGIN, word(image.headBegin));
            arguments.set(Field.TAIL_BEGIN, word(image.tailBegin));
            arguments.set(Field.SEGMENTS, word(image.segmentsAt));
            arguments.set(Field.SEGMENT_BEGIN, word(image.segmentBeginAt));
            arguments.set(Field.PIECES, word(image.piecesAt));
            arguments.set(Field.PIECE_BEGIN, word(image.pieceBeginAt));
            arguments.set(Field.RANGES, word(image.rangesAt));
        }
    }

    private long word(int index) {
        return beginAddress + (long) index * Integer.BYTES;
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
