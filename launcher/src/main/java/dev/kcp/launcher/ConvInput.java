package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.conv.ConvChecks;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Fragment;
import dev.kcp.core.Partition;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Supplier;

/**
 * The safetensors file that {@code kcp conv} reads: x, weight, cu_seqlens, and where they are there bias and dy. All that
 * can be told from shapes and offsets is checked when it is opened, before a rank is started; what is wrong is BAD_DATA.
 */
final class ConvInput implements AutoCloseable {
    private final Path path;
    private final Safetensors file;
    private final CuSeqlens cuSeqlens;

    private ConvInput(Path path, Safetensors file, CuSeqlens cuSeqlens) {
        this.path = path;
        this.file = file;
        this.cuSeqlens = cuSeqlens;
    }

    static ConvInput open(Path path, boolean backward, boolean allowSlack) {
        Safetensors file = Safetensors.open(path);
        try {
            return new ConvInput(path, file, ofFile(path, () -> check(file, backward, allowSlack)));
        } catch (RuntimeException e) {
            file.close();
            throw e;
        }
    }

    private static CuSeqlens check(Safetensors file, boolean backward, boolean allowSlack) {
        try (Tensor weight = file.read("weight");
                Tensor bias = file.has("bias") ? file.read("bias") : null;
                Tensor offsets = file.read("cu_seqlens")) {
            Tensor x = shapeOf(file, "x");
            ConvChecks.rows("x", x, Device.CPU);
            ConvChecks.parameters(x, weight, bias);
            if (backward) {
                ConvChecks.rowsLike(x, "dy", shapeOf(file, "dy"));
            }
            return CuSeqlens.of(ConvChecks.offsets(offsets, x.rows(), allowSlack));
        }
    }

    /** A tensor of the file's shape and type whose elements are never read. */
    private static Tensor shapeOf(Safetensors file, String name) {
        DType dtype = Arrays.stream(DType.values())
                .filter(known -> known.name().equals(file.dtypeName(name)))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(name + " must be BF16: dtype=" + file.dtypeName(name)));
        return Tensor.over(
                Memory.borrow(Device.CPU, Memory.ALIGNMENT_BYTES, Long.MAX_VALUE - Memory.ALIGNMENT_BYTES),
                dtype,
                file.shape(name));
    }

    private static <T> T ofFile(Path path, Supplier<T> read) {
        try {
            return read.get();
        } catch (IllegalArgumentException e) {
            throw new KcpException(KcpException.Code.BAD_DATA, path + ": " + e.getMessage(), e);
        }
    }

    /** The batch's documents. */
    CuSeqlens cuSeqlens() {
        return cuSeqlens;
    }

    /** All rows, slack included. */
    long rows() {
        long[] shape = shape();
        return shape[shape.length - 2];
    }

    long channels() {
        long[] shape = shape();
        return shape[shape.length - 1];
    }

    /** x's shape as it stands in the file, {@code [S, C]} or {@code [1, S, C]}. */
    long[] shape() {
        return file.shape("x");
    }

    /** Type of a parameter; FP32 where the file has none of that name. */
    DType dtype(String parameter) {
        return file.has(parameter) ? DType.valueOf(file.dtypeName(parameter)) : DType.F32;
    }

    Tensor weight() {
        return file.read("weight");
    }

    /** The bias, or null where the file has none. */
    Tensor bias() {
        return file.has("bias") ? file.read("bias") : null;
    }

    /** A rank's rows of x or dy; only these are read. */
    Tensor shard(String name, Partition partition, int rank) {
        Tensor rows = Tensor.zeros(DType.BF16, partition.tokens(rank), channels());
        try {
            long row = 0;
            for (Fragment fragment : partition.fragments(rank)) {
                long begin = partition.packedBegin(fragment);
                long end = row + fragment.length();
                file.readRows(name, begin, begin + fragment.length(), rows.rows(row, end));
                row = end;
            }
            return rows;
        } catch (RuntimeException e) {
            rows.close();
            throw e;
        }
    }

    @Override
    public String toString() {
        return path.toString();
    }

    @Override
    public void close() {
        file.close();
    }
}
