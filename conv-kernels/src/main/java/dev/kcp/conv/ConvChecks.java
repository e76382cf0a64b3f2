package dev.kcp.conv;

import static dev.kcp.Arguments.present;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * What the arguments of a convolution must be. Single-rank and context-parallel calls, on every device, check here and
 * nowhere else. Every message ends in the values that were found.
 */
public final class ConvChecks {
    /** Taps of the filter. */
    public static final int TAPS = 4;
    /** Channels come in groups of this many, one 16-byte access of BF16. */
    public static final int CHANNEL_MULTIPLE = 8;

    /**
     * Most rows of x, S: below 2^31 by one block of the largest kernel, so that the number of a row that a block begins
     * with, or looks past its end to, is still an INT32.
     */
    public static final int MOST_ROWS = Integer.MAX_VALUE - 511;

    /** Most channels, C: a quarter of what the bytes of a row of FP32 could be in INT32. */
    public static final int MOST_CHANNELS = 1 << 28;

    private static final int ACCESS_BYTES = 16;
    private static final int MOST_DOCUMENTS = 1 << 29;

    private ConvChecks() {}

    /** S and C of a call or of its work space. */
    public static void sizes(long rows, long channels) {
        if (rows < 0 || rows > MOST_ROWS || channels < 0 || channels > MOST_CHANNELS) {
            throw new IllegalArgumentException("sizes must be 0 to " + MOST_ROWS + " rows and 0 to " + MOST_CHANNELS
                    + " channels: rows=" + rows + " channels=" + channels);
        }
    }

    /**
     * Rows of BF16 channels: x, dy, y, dx.
     *
     * @throws IllegalArgumentException naming the tensor and the rule
     */
    public static void rows(String name, Tensor rows, Device device) {
        onDevice(name, rows, device);
        if (rows.dtype() != DType.BF16) {
            throw new IllegalArgumentException(name + " must be BF16: dtype=" + rows.dtype());
        }
        if (rows.rank() != 2 && (rows.rank() != 3 || rows.extent(0) != 1)) {
            throw new IllegalArgumentException(name + " must be [S, C] or [1, S, C]; lay documents end to end and give"
                    + " their offsets: shape=" + shape(rows));
        }
        if (rows.columns() == 0 || rows.columns() % CHANNEL_MULTIPLE != 0) {
            throw new IllegalArgumentException(
                    name + " needs channels in multiples of " + CHANNEL_MULTIPLE + ": C=" + rows.columns());
        }
        aligned(name, rows);
        // One row has no next one: its pitch says nothing.
        if (rows.rows() > 1 && rows.pitchBytes() % ACCESS_BYTES != 0) {
            throw new IllegalArgumentException(name + " needs a row pitch in multiples of "
                    + ACCESS_BYTES / rows.dtype().bytes() + " elements: pitch=" + rows.pitchElements());
        }
        if (rows.rows() > MOST_ROWS || rows.columns() > MOST_CHANNELS) {
            throw new IllegalArgumentException(name + " is larger than " + MOST_ROWS + " rows of " + MOST_CHANNELS
                    + " channels: S=" + rows.rows() + " C=" + rows.columns());
        }
    }

    /** As {@link #rows}, and of the same shape as x. */
    public static void rowsLike(Tensor x, String name, Tensor rows) {
        rows(name, rows, x.device());
        if (rows.rows() != x.rows() || rows.columns() != x.columns()) {
            throw new IllegalArgumentException(
                    name + " must have the shape of x: " + name + "=" + shape(rows) + " x=" + shape(x));
        }
    }

    /** Taps {@code [C, 4]} and bias {@code [C]} (or null), each FP32 or BF16, for the channels of x. */
    public static void parameters(Tensor x, Tensor weight, Tensor bias) {
        parameter("weight", weight, x.device());
        if (weight.rank() != 2 || weight.rows() != x.columns() || weight.columns() != TAPS) {
            throw new IllegalArgumentException(
                    "weight must be [C, " + TAPS + "]: weight=" + shape(weight) + " C=" + x.columns());
        }
        if (bias != null) {
            parameter("bias", bias, x.device());
            if (bias.rank() != 1 || bias.columns() != x.columns()) {
                throw new IllegalArgumentException("bias must be [C]: bias=" + shape(bias) + " C=" + x.columns());
            }
        }
    }

    /** What backward is asked for. */
    public static void gradients(Tensor x, Tensor bias, Gradients out) {
        present("gradients", out);
        if (out.dx() != null) {
            rowsLike(x, "dx", out.dx());
        }
        if (out.dbias() != null && bias == null) {
            throw new IllegalArgumentException("dbias without a bias: dbias=" + shape(out.dbias()) + " bias=null");
        }
        parameterGradients(x.columns(), out.dweight(), out.dbias(), x.device());
    }

    /** Room for the gradients of taps {@code [C, 4]} and bias {@code [C]}, dense, either of them null. */
    public static void parameterGradients(long channels, Tensor dweight, Tensor dbias, Device device) {
        if (dweight != null) {
            parameter("dweight", dweight, device);
            if (dweight.rank() != 2 || dweight.rows() != channels || dweight.columns() != TAPS) {
                throw new IllegalArgumentException(
                        "dweight must be [C, " + TAPS + "]: dweight=" + shape(dweight) + " C=" + channels);
            }
        }
        if (dbias != null) {
            parameter("dbias", dbias, device);
            if (dbias.rank() != 1 || dbias.columns() != channels) {
                throw new IllegalArgumentException("dbias must be [C]: dbias=" + shape(dbias) + " C=" + channels);
            }
        }
    }

    /**
     * An output shares no byte with an input or another output. Either may be null.
     *
     * @throws IllegalArgumentException naming both
     */
    public static void apart(String outputName, Tensor output, String otherName, Tensor other) {
        if (output != null && other != null && output.overlaps(other)) {
            throw new IllegalArgumentException(outputName + " overlaps " + otherName + ", and one would be overwritten"
                    + " while it is read: " + outputName + "=" + place(output) + " " + otherName + "=" + place(other));
        }
    }

    private static String place(Tensor tensor) {
        return tensor + " at 0x" + Long.toHexString(tensor.address());
    }

    /**
     * A work space that the caller owns.
     *
     * @param wantedBytes what the call needs; with 0 the work space is not touched
     */
    public static void workspace(Memory workspace, long wantedBytes, Device device) {
        present("workspace", workspace);
        if (!workspace.device().equals(device)) {
            throw new IllegalArgumentException(
                    "workspace is on another device: device=" + workspace.device() + " wanted=" + device);
        }
        if (workspace.bytes() < wantedBytes) {
            throw new IllegalArgumentException(
                    "workspace is too small: bytes=" + workspace.bytes() + " wanted=" + wantedBytes);
        }
        if (wantedBytes > 0 && workspace.address() % ACCESS_BYTES != 0) {
            throw new IllegalArgumentException("workspace must start at a multiple of " + ACCESS_BYTES
                    + " bytes: address=0x" + Long.toHexString(workspace.address()));
        }
    }

    /** A tensor that offsets can stand in, whatever they are; what their memory holds is not looked at. */
    public static void offsetsTensor(Tensor cuSeqlens, Device device) {
        onDevice("cu_seqlens", cuSeqlens, device);
        if (cuSeqlens.dtype() != DType.I32 || cuSeqlens.rank() != 1 || cuSeqlens.columns() == 0) {
            throw new IllegalArgumentException("cu_seqlens must be INT32 [documents + 1]: dtype=" + cuSeqlens.dtype()
                    + " shape=" + shape(cuSeqlens));
        }
        if (cuSeqlens.columns() > MOST_DOCUMENTS) {
            throw new IllegalArgumentException("cu_seqlens names more than " + MOST_DOCUMENTS + " documents: documents="
                    + (cuSeqlens.columns() - 1));
        }
        cuSeqlens.address();
    }

    /**
     * Reads and checks offsets on the host.
     *
     * @param cuSeqlens INT32 {@code [documents + 1]}: 0 first, never falling
     * @param rows rows of x, which the offsets must end at, or before with slack allowed
     */
    public static int[] offsets(Tensor cuSeqlens, long rows, boolean allowSlack) {
        offsetsTensor(cuSeqlens, Device.CPU);
        int[] offsets = new int[Math.toIntExact(cuSeqlens.columns())];
        for (int i = 0; i < offsets.length; i++) {
            offsets[i] = HostMemory.ALL.get(ValueLayout.JAVA_INT, cuSeqlens.address() + (long) i * Integer.BYTES);
        }
        rising(offsets);
        end(offsets[offsets.length - 1], rows, allowSlack);
        return offsets;
    }

    /** Offsets begin at 0 and never fall. */
    public static void rising(int[] offsets) {
        if (present("cu_seqlens", offsets).length == 0) {
            throw new IllegalArgumentException("cu_seqlens must start at 0: cu_seqlens[0]=none");
        }
        for (int i = 0; i < offsets.length; i++) {
            if (i == 0 ? offsets[0] != 0 : offsets[i] < offsets[i - 1]) {
                throw fault(i, i == 0 ? 0 : offsets[i - 1], offsets[i]);
            }
        }
    }

    /**
     * The refusal of offsets, wherever they were looked at.
     *
     * @param index the first offset that is wrong
     * @param before the offset before it
     */
    public static IllegalArgumentException fault(int index, int before, int here) {
        return new IllegalArgumentException(
                index == 0
                        ? "cu_seqlens must start at 0: cu_seqlens[0]=" + here
                        : "cu_seqlens must never fall: cu_seqlens[" + (index - 1) + "]=" + before + " cu_seqlens["
                                + index + "]=" + here);
    }

    /**
     * Offsets end at the rows of x, or before with slack allowed.
     *
     * @param end the last offset
     */
    public static void end(int end, long rows, boolean allowSlack) {
        if (end > rows || end < rows && !allowSlack) {
            throw new IllegalArgumentException("cu_seqlens must end at the rows of x"
                    + (end < rows ? " (slack rows are accepted only where they are allowed)" : "") + ": end=" + end
                    + " S=" + rows);
        }
    }

    private static void parameter(String name, Tensor tensor, Device device) {
        onDevice(name, tensor, device);
        if (tensor.dtype() != DType.F32 && tensor.dtype() != DType.BF16) {
            throw new IllegalArgumentException(name + " must be FP32 or BF16: dtype=" + tensor.dtype());
        }
        dense(name, tensor);
    }

    /** A tensor that the programs know by its address alone. */
    static void dense(String name, Tensor tensor) {
        if (!tensor.isDense()) {
            throw new IllegalArgumentException(name + " must be dense: shape=" + shape(tensor) + " pitch="
                    + tensor.pitchElements() + " columns=" + tensor.columns());
        }
        aligned(name, tensor);
    }

    private static void aligned(String name, Tensor tensor) {
        long address = tensor.address();
        if (address % ACCESS_BYTES != 0 && tensor.elements() > 0) {
            throw new IllegalArgumentException(name + " must start at a multiple of " + ACCESS_BYTES
                    + " bytes: address=0x" + Long.toHexString(address));
        }
    }

    static void onDevice(String name, Tensor tensor, Device device) {
        present(name, tensor);
        if (!tensor.device().equals(device)) {
            throw new IllegalArgumentException(
                    name + " is on another device: device=" + tensor.device() + " wanted=" + device);
        }
    }

    static String shape(Tensor tensor) {
        return Arrays.toString(tensor.shape());
    }
}
