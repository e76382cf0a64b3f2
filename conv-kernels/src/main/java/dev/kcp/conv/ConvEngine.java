package dev.kcp.conv;

import dev.kcp.tensor.Device;
import dev.kcp.tensor.Tensor;
import java.util.List;

/**
 * The programs of one device. The single-rank op and the context-parallel op call the same ones: a whole batch is the
 * shard without history and without owed rows. Arguments were checked by the caller; a program checks nothing.
 *
 * <p>S = local rows, C = channels. Forward is {@code main} beside the exchange, then {@code seam}. Backward is
 * {@code head}, the exchange beside {@code main}, then {@code owed}.
 */
public interface ConvEngine extends AutoCloseable {
    /** The rows of forward that a call computes. */
    enum Part {
        /** Every row that needs no history from elsewhere; slack rows become zeros. */
        MAIN,
        /** The first up to three rows of continuing fragments. */
        SEAM
    }

    /**
     * What forward saved, and backward needs.
     *
     * @param x BF16 {@code [S, C]}
     * @param weight FP32 or BF16 {@code [C, 4]}
     * @param bias FP32 or BF16 {@code [C]}, or null
     * @param history BF16 {@code [H, C]}, the rows that {@link ShardTables#historyRow} names, or null where none is named
     */
    record Operands(Tensor x, Tensor weight, Tensor bias, Tensor history) {
        public long channels() {
            return x.columns();
        }

        /** Planes of dweight and dbias sums: four taps, and the bias where there is one. */
        public int sumPlanes() {
            return bias == null ? 4 : 5;
        }
    }

    Device device();

    /** Names of the programs in use for these arguments, for reports. */
    List<String> programs(Operands in, ConvOptions options);

    /**
     * Writes the part's rows of y.
     *
     * @param y BF16 {@code [S, C]}
     */
    void forward(ShardTables tables, Operands in, ConvOptions options, Part part, Tensor y);

    /**
     * Writes g of the first up to three rows of continuing fragments.
     *
     * @param dy BF16 {@code [S, C]}
     * @param head FP32 {@code [headRows, C]}
     */
    void head(ShardTables tables, Operands in, ConvOptions options, Tensor dy, Tensor head);

    /**
     * Writes dx of every row that is not owed, g of owed rows, and the shard's sums for dweight and dbias.
     *
     * @param dy BF16 {@code [S, C]}, or null for zeros
     * @param dx BF16 {@code [S, C]}, or null where nobody asks for it
     * @param tail FP32 {@code [tailRows, C]}
     * @param sums {@code [nodes, planes, C]} of the policy's sum type, one per {@link ShardTables#nodes()}, or null where
     *     nobody asks for them; planes are taps 0 to 3 and, with a bias, the bias
     */
    void main(ShardTables tables, Operands in, ConvOptions options, Tensor dy, Tensor dx, Tensor tail, Tensor sums);

    /**
     * Writes dx of owed rows.
     *
     * @param tail FP32 {@code [tailRows, C]}, from {@code main}
     * @param received FP32 g rows that {@link ShardTables#owedRow} names
     * @param dx BF16 {@code [S, C]}
     */
    void owed(ShardTables tables, Operands in, Tensor tail, Tensor received, Tensor dx);

    @Override
    void close();
}
