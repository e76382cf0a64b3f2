package dev.kcp.conv;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.List;

/**
 * The programs of one device. The single-rank op and the context-parallel op call the same ones: a whole batch is the
 * shard without history and without owed rows. Arguments were checked by the caller; a program checks nothing.
 *
 * <p>S = local rows, C = channels. Forward is {@code forward} beside the exchange, and {@code seam} behind
 * that. Backward is
 * {@code head}, the exchange beside {@code main}, then {@code owed}.
 */
public interface ConvEngine extends AutoCloseable {
    /**
     * What forward saved, and backward needs.
     *
     * @param x BF16 {@code [S, C]}
     * @param weight FP32 or BF16 {@code [C, 4]}
     * @param bias FP32 or BF16 {@code [C]}, or null
     * @param history BF16 {@code [H, C]}, the rows that {@link ShardTables#historyRow} names, or null where none is named
     */
    record Operands(Tensor x, Tensor weight, Tensor bias, Tensor history) {
        /** C. */
        public long channels() {
            return x.columns();
        }

        /** Planes of dweight and dbias sums: four taps, and the bias where there is one. */
        public int sumPlanes() {
            return bias == null ? 4 : 5;
        }
    }

    /** Where it computes; every tensor that it is given lies there. */
    Device device();

    /** The queue that its work goes to: a stream's handle, or 0 on the host, which works at once. */
    default long queue() {
        return 0;
    }

    /**
     * Names of the main programs in use for these arguments, for reports: forward's, backward's.
     *
     * @param isSharded whether they run on a {@link #shard} or on a whole {@link #batch}
     */
    List<String> programs(Operands in, ConvOptions options, boolean isSharded);

    /**
     * A partitioned batch's shard.
     *
     * @param tables host tables, copied to the device once
     */
    default Shard shard(ShardTables tables) {
        return shard(tables, tables.fragments());
    }

    /**
     * As the other form, with room for later batches; see {@link #update}.
     *
     * @param fragments most fragments that it will have, at least the tables'
     */
    Shard shard(ShardTables tables, int fragments);

    /**
     * Gives a shard another batch's tables, in stream order: launches that were recorded with it then work on that batch.
     *
     * @param shard from {@link #shard(ShardTables, int)}
     * @param tables with the same rows, head and tail rows, and tokens of the packed batch; fragments may differ
     * @return the shard to use from now on; it may be the one given
     * @throws IllegalArgumentException if there is no room for as many fragments, or more than fragments differ
     */
    Shard update(Shard shard, ShardTables tables);

    /** Lets a queue wait, on the device, for all that is queued here now; on the host nothing is. */
    void holdBack(long queue);

    /**
     * A whole batch of documents.
     *
     * @param cuSeqlens INT32 {@code [documents + 1]} on this device
     * @param rows rows of x
     * @throws IllegalArgumentException if the offsets are wrong and the host can see them
     */
    Shard batch(Tensor cuSeqlens, long rows, boolean allowSlack);

    /** Moves and additions of rows in this device's memory. */
    RowOps rowOps();

    /** A dense tensor on this device, owned by the caller; what its elements are is not said. */
    Tensor allocate(DType dtype, long... shape);

    /** Loads every program, so that no later call does. */
    void prepare();

    /**
     * Bytes of work space of {@link #forward} on a whole batch, whatever its documents, types and options.
     *
     * @param rows rows of x, S
     * @param channels C
     */
    long forwardWorkspaceBytes(long rows, long channels);

    /** As {@link #forwardWorkspaceBytes}, of {@link #backward}. */
    long backwardWorkspaceBytes(long rows, long channels);

    /** Memory for a work space on this device, of zeros, owned by the caller. */
    Memory allocateWorkspace(long bytes);

    /**
     * The one rounding of dweight and dbias: from the tree's root to the types that were asked for.
     *
     * @param sums {@code [1, planes, C]}, or {@code [0, planes, C]} for a batch without tokens: zeros
     * @param dweight FP32 or BF16 {@code [C, 4]}, or null
     * @param dbias FP32 or BF16 {@code [C]}, or null
     */
    void round(Tensor sums, Tensor dweight, Tensor dbias);

    /**
     * Writes every row of y that needs no history from elsewhere; slack rows become zeros.
     *
     * @param y BF16 {@code [S, C]}
     * @param workspace the caller's, of {@link #forwardWorkspaceBytes} or more, or null for the engine's own
     */
    void forward(Shard shard, Operands in, ConvOptions options, Tensor y, Memory workspace);

    /** As above, in the engine's own work space. */
    default void forward(Shard shard, Operands in, ConvOptions options, Tensor y) {
        forward(shard, in, options, y, null);
    }

    /**
     * Writes the first up to three rows of y of continuing fragments, which {@link #forward} leaves alone.
     *
     * @param y BF16 {@code [S, C]}
     * @param queue where the program is queued: a stream's handle, or 0 for the engine's own; the host runs it at once
     */
    void seam(Shard shard, Operands in, ConvOptions options, Tensor y, long queue);

    /**
     * Writes g of the first up to three rows of continuing fragments.
     *
     * @param dy BF16 {@code [S, C]}, or null for zeros
     * @param head FP32 {@code [headRows, C]}
     */
    void head(Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor head);

    /**
     * Writes dx of every row that is not owed, g of owed rows, and the shard's sums for dweight and dbias.
     *
     * @param dy BF16 {@code [S, C]}, or null for zeros
     * @param dx BF16 {@code [S, C]}, or null where nobody asks for it
     * @param tail FP32 {@code [tailRows, C]}
     * @param sums {@code [nodes, planes, C]} of the policy's sum type, one per {@link Shard#nodeCount()}, or null where
     *     nobody asks for them; planes are taps 0 to 3 and, with a bias, the bias
     */
    void main(Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor dx, Tensor tail, Tensor sums);

    /**
     * Writes dx of owed rows.
     *
     * @param tail FP32 {@code [tailRows, C]}, from {@code main}
     * @param received FP32 g rows that {@link ShardTables#owedRow} names
     * @param dx BF16 {@code [S, C]}
     */
    void owed(Shard shard, Operands in, Tensor tail, Tensor received, Tensor dx);

    /**
     * A whole batch's gradients, those that {@code out} has room for.
     *
     * @param batch from {@link #batch}
     * @param dy BF16 {@code [S, C]}, or null for zeros
     * @param workspace the caller's, of {@link #backwardWorkspaceBytes} or more, or null for the engine's own
     */
    void backward(Shard batch, Operands in, ConvOptions options, Tensor dy, Gradients out, Memory workspace);

    @Override
    void close();
}
