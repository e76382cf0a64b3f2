package dev.kcp.conv;

import static dev.kcp.Arguments.present;
import static dev.kcp.conv.ConvChecks.apart;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/**
 * What an engine's programs may be given. Each program of each engine checks here first, so that no argument makes one read
 * or write outside a tensor; a check looks at sizes and addresses and never at elements.
 */
public final class ProgramChecks {
    private ProgramChecks() {}

    /**
     * A shard that this engine made.
     *
     * @throws IllegalArgumentException if it is missing or of another kind of engine
     */
    public static <T extends Shard> T own(Class<T> kind, Shard shard) {
        if (!kind.isInstance(present("shard", shard))) {
            throw new IllegalArgumentException("shard of another engine: shard="
                    + shard.getClass().getSimpleName() + " wanted=" + kind.getSimpleName());
        }
        return kind.cast(shard);
    }

    /**
     * Arguments of {@link ConvEngine#forward}.
     *
     * @param wantedBytes of the work space, where one is given
     */
    public static void forward(
            Device device,
            Shard shard,
            Operands in,
            ConvOptions options,
            Tensor y,
            Memory workspace,
            long wantedBytes) {
        seam(device, shard, in, options, y);
        if (workspace != null) {
            Tensor room = room(workspace, wantedBytes, device);
            apartFromInputs("workspace", room, in, null);
            apart("workspace", room, "y", y);
        }
    }

    /** Arguments of {@link ConvEngine#seam}. */
    public static void seam(Device device, Shard shard, Operands in, ConvOptions options, Tensor y) {
        operands(device, shard, in, options);
        ConvChecks.rowsLike(in.x(), "y", y);
        apartFromInputs("y", y, in, null);
    }

    /** Arguments of {@link ConvEngine#head}. */
    public static void head(Device device, Shard shard, Operands in, ConvOptions options, Tensor dy, Tensor head) {
        operands(device, shard, in, options);
        dy(in, dy);
        floatRows("head", head, shard.headRows(), in);
        apartFromInputs("head", head, in, dy);
    }

    /** Arguments of {@link ConvEngine#main}. */
    public static void main(
            Device device,
            Shard shard,
            Operands in,
            ConvOptions options,
            Tensor dy,
            Tensor dx,
            Tensor tail,
            Tensor sums) {
        operands(device, shard, in, options);
        dy(in, dy);
        if (dx != null) {
            ConvChecks.rowsLike(in.x(), "dx", dx);
        }
        floatRows("tail", tail, shard.tailRows(), in);
        if (sums != null) {
            sums(sums, options.policy().sumType(), shard.nodeCount(), in.sumPlanes(), in.channels(), device);
        }
        apartFromInputs("dx", dx, in, dy);
        apartFromInputs("tail", tail, in, dy);
        apartFromInputs("sums", sums, in, dy);
        apart("dx", dx, "tail", tail);
        apart("dx", dx, "sums", sums);
        apart("tail", tail, "sums", sums);
    }

    /** Arguments of {@link ConvEngine#owed}, whose rows of dx need not be those of x, which it does not read. */
    public static void owed(Device device, Shard shard, Operands in, Tensor tail, Tensor received, Tensor dx) {
        present("shard", shard);
        present("operands", in);
        ConvChecks.rows("x", in.x(), device);
        ConvChecks.parameters(in.x(), in.weight(), in.bias());
        ConvChecks.rows("dx", dx, device);
        enough("dx", dx, shard.rows(), in);
        floatRows("tail", tail, shard.tailRows(), in);
        floatRows("received", received, shard.receivedRows(), in);
        apartFromInputs("dx", dx, in, null);
        apart("dx", dx, "tail", tail);
        apart("dx", dx, "received", received);
    }

    /**
     * Arguments of {@link ConvEngine#backward}.
     *
     * @param wantedBytes of the work space, where one is given
     */
    public static void backward(
            Device device,
            Shard batch,
            Operands in,
            ConvOptions options,
            Tensor dy,
            Gradients out,
            Memory workspace,
            long wantedBytes) {
        operands(device, batch, in, options);
        if (batch.headRows() > 0 || batch.tailRows() > 0 || batch.nodeCount() > 1) {
            throw new IllegalArgumentException("backward of a whole batch was given a part of one: headRows="
                    + batch.headRows() + " tailRows=" + batch.tailRows() + " nodes=" + batch.nodeCount());
        }
        dy(in, dy);
        ConvChecks.gradients(in.x(), in.bias(), out);
        apartFromInputs("dx", out.dx(), in, dy);
        apartFromInputs("dweight", out.dweight(), in, dy);
        apartFromInputs("dbias", out.dbias(), in, dy);
        apart("dx", out.dx(), "dweight", out.dweight());
        apart("dx", out.dx(), "dbias", out.dbias());
        apart("dweight", out.dweight(), "dbias", out.dbias());
        if (workspace != null) {
            Tensor room = room(workspace, wantedBytes, device);
            apartFromInputs("workspace", room, in, dy);
            apart("workspace", room, "dx", out.dx());
            apart("workspace", room, "dweight", out.dweight());
            apart("workspace", room, "dbias", out.dbias());
        }
    }

    /** Arguments of {@link ConvEngine#round}. */
    public static void round(Device device, Tensor sums, Tensor dweight, Tensor dbias) {
        ConvChecks.onDevice("sums", sums, device);
        if (sums.rank() != 3
                || sums.extent(0) > 1
                || sums.extent(1) < ConvChecks.TAPS
                || sums.extent(1) > ConvChecks.TAPS + 1
                || sums.dtype() != DType.F32 && sums.dtype() != DType.F64) {
            throw new IllegalArgumentException(
                    "sums must be FP32 or FP64 [1, 4, C], with a bias [1, 5, C], or without a token [0, ..]: sums="
                            + sums);
        }
        ConvChecks.dense("sums", sums);
        ConvChecks.sizes(0, sums.columns());
        if (dbias != null && sums.extent(1) == ConvChecks.TAPS) {
            throw new IllegalArgumentException("dbias of sums without a bias: dbias=" + dbias + " sums=" + sums);
        }
        ConvChecks.parameterGradients(sums.columns(), dweight, dbias, device);
        apart("dweight", dweight, "sums", sums);
        apart("dbias", dbias, "sums", sums);
        apart("dweight", dweight, "dbias", dbias);
    }

    private static void operands(Device device, Shard shard, Operands in, ConvOptions options) {
        present("shard", shard);
        present("operands", in);
        present("options", options);
        ConvChecks.rows("x", in.x(), device);
        ConvChecks.parameters(in.x(), in.weight(), in.bias());
        if (in.x().rows() < shard.rows()) {
            throw new IllegalArgumentException(
                    "x has fewer rows than the shard: S=" + in.x().rows() + " shardRows=" + shard.rows());
        }
        if (shard.historyRows() > 0) {
            ConvChecks.rows("history", in.history(), device);
            ConvChecks.dense("history", in.history());
            enough("history", in.history(), shard.historyRows(), in);
        }
    }

    private static void dy(Operands in, Tensor dy) {
        if (dy != null) {
            ConvChecks.rowsLike(in.x(), "dy", dy);
        }
    }

    /** FP32 rows of g, which a call without any may leave out. */
    private static void floatRows(String name, Tensor rows, int wanted, Operands in) {
        if (wanted == 0) {
            return;
        }
        ConvChecks.onDevice(name, rows, in.x().device());
        if (rows.dtype() != DType.F32) {
            throw new IllegalArgumentException(name + " must be FP32: dtype=" + rows.dtype());
        }
        ConvChecks.dense(name, rows);
        enough(name, rows, wanted, in);
    }

    private static void enough(String name, Tensor rows, int wanted, Operands in) {
        if (rows.rows() < wanted || rows.columns() != in.channels()) {
            throw new IllegalArgumentException(name + " must have the shard's rows of x's channels: " + name + "="
                    + ConvChecks.shape(rows) + " rows=" + wanted + " C=" + in.channels());
        }
    }

    private static void sums(Tensor sums, DType type, int nodes, int planes, long channels, Device device) {
        ConvChecks.onDevice("sums", sums, device);
        if (sums.dtype() != type
                || sums.rank() != 3
                || sums.extent(0) < nodes
                || sums.extent(1) != planes
                || sums.extent(2) != channels) {
            throw new IllegalArgumentException("sums must be [nodes, planes, C] of the policy's type: sums=" + sums
                    + " dtype=" + type + " nodes=" + nodes + " planes=" + planes + " C=" + channels);
        }
        ConvChecks.dense("sums", sums);
    }

    /** The part of a work space that a call writes, as a tensor. */
    private static Tensor room(Memory workspace, long wantedBytes, Device device) {
        ConvChecks.workspace(workspace, wantedBytes, device);
        return Tensor.over(workspace, DType.I32, wantedBytes / DType.I32.bytes());
    }

    private static void apartFromInputs(String name, Tensor output, Operands in, Tensor dy) {
        apart(name, output, "x", in.x());
        apart(name, output, "weight", in.weight());
        apart(name, output, "bias", in.bias());
        apart(name, output, "history", in.history());
        apart(name, output, "dy", dy);
    }
}
