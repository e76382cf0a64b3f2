package dev.kcp.conv;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;

/**
 * What the arguments of a convolution must be. Single-rank and context-parallel calls, on every device, check here and
 * nowhere else. Every message ends in the values that were found.
 */
public final class ConvChecks {
    /** Taps of the filter. */
    public static final int TAPS = 4;
    /** Channels come in groups of this many, one 16-byte access of BF16. */
    public static final int CHANNEL_MULTIPLE = 8;

    private static final int ACCESS_BYTES = 16;

    private ConvChecks() {}

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
        // One row has no next one: its pitch says nothing.
        if (rows.rows() > 1 && rows.pitchBytes() % ACCESS_BYTES != 0) {
            throw new IllegalArgumentException(name + " needs a row pitch in multiples of "
                    + ACCESS_BYTES / rows.dtype().bytes() + " elements: pitch=" + rows.pitchElements());
        }
        if (rows.rows() > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(name + " has more rows than INT32 offsets can name: S=" + rows.rows());
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
        if (out.dx() != null) {
            rowsLike(x, "dx", out.dx());
        }
        if (out.dbias() != null && bias == null) {
            throw new IllegalArgumentException("dbias without a bias: dbias=" + shape(out.dbias()) + " bias=null");
        }
        if (out.dweight() != null) {
            parameter("dweight", out.dweight(), x.device());
            if (out.dweight().rows() != x.columns() || out.dweight().columns() != TAPS) {
                throw new IllegalArgumentException(
                        "dweight must be [C, " + TAPS + "]: dweight=" + shape(out.dweight()) + " C=" + x.columns());
            }
        }
        if (out.dbias() != null) {
            parameter("dbias", out.dbias(), x.device());
            if (out.dbias().elements() != x.columns()) {
                throw new IllegalArgumentException(
                        "dbias must be [C]: dbias=" + shape(out.dbias()) + " C=" + x.columns());
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

    /**
     * Reads and checks offsets on the host.
     *
     * @param cuSeqlens INT32 {@code [documents + 1]}: 0 first, never falling
     * @param rows rows of x, which the offsets must end at, or before with slack allowed
     */
    public static int[] offsets(Tensor cuSeqlens, long rows, boolean allowSlack) {
        if (cuSeqlens.dtype() != DType.I32 || cuSeqlens.rank() != 1 || cuSeqlens.columns() == 0) {
            throw new IllegalArgumentException("cu_seqlens must be INT32 [documents + 1]: dtype=" + cuSeqlens.dtype()
                    + " shape=" + shape(cuSeqlens));
        }
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
        if (offsets.length == 0) {
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
    }

    private static void onDevice(String name, Tensor tensor, Device device) {
        if (!tensor.device().equals(device)) {
            throw new IllegalArgumentException(
                    name + " is on another device: device=" + tensor.device() + " wanted=" + device);
        }
    }

    private static String shape(Tensor tensor) {
        return java.util.Arrays.toString(tensor.shape());
    }
}
