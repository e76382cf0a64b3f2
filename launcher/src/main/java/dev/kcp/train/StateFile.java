package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.zip.CRC32C;

/**
 * One saved state: a safetensors file with every parameter's value and moments, and as metadata the position, the run's
 * identity and a checksum over all of it. Nothing that a file says is believed before its checksum holds.
 */
final class StateFile {
    private static final String FORMATS = "kcp-train-";
    private static final String FORMAT = FORMATS + "1";
    private static final String CHECKSUM = "checksum";
    private static final long CHUNK_BYTES = 1 << 30;

    private StateFile() {}

    /** Writes under a temporary name, to the disk, then renames. */
    static void write(Path file, RunPosition position, Map<String, String> identity, StateBuffers buffers) {
        SortedMap<String, String> metadata = new TreeMap<>();
        identity.forEach((name, value) -> metadata.put("run." + name, value));
        metadata.put("format", FORMAT);
        metadata.put("step", Integer.toString(position.step()));
        metadata.put("data.epoch", Long.toString(position.data().epoch()));
        metadata.put("data.document", Integer.toString(position.data().document()));
        metadata.put("data.token", Integer.toString(position.data().token()));
        metadata.put("first_loss", Double.toString(position.firstLoss()));
        metadata.put("last_loss", Double.toString(position.lastLoss()));
        Map<String, Tensor> tensors = buffers.tensors();
        metadata.put(CHECKSUM, checksum(metadata, tensors));
        Safetensors.writeDurably(file, tensors, metadata);
    }

    /** The step that a file says it was saved after, not yet believed; empty where it cannot be read. */
    static OptionalLong claimedStep(Path file) {
        try (Safetensors in = Safetensors.open(file)) {
            return OptionalLong.of(Long.parseLong(in.metadata().get("step")));
        } catch (KcpException | NumberFormatException unreadable) {
            return OptionalLong.empty();
        }
    }

    /**
     * Refuses a state that another version of kcp wrote. A damaged file is none, also where the damage is in the format's
     * name: with the right one in its place the checksum holds.
     *
     * @throws IllegalArgumentException naming both formats
     */
    static void checkVersion(Path file) {
        try (Safetensors in = Safetensors.open(file)) {
            SortedMap<String, String> metadata = new TreeMap<>(in.metadata());
            String checksum = metadata.remove(CHECKSUM);
            String format = metadata.put("format", FORMAT);
            if (format != null
                    && format.startsWith(FORMATS)
                    && !format.equals(FORMAT)
                    && !holds(checksum, metadata, in)) {
                throw new IllegalArgumentException(
                        "the saved state is of another version of kcp; go on with that version, or give another folder:"
                                + " file=" + file + " expected format=" + FORMAT + " saved format=" + format);
            }
        } catch (KcpException unreadable) {
            // Reading it tells what is wrong.
        }
    }

    private static boolean holds(String checksum, SortedMap<String, String> metadata, Safetensors in) {
        try {
            return checksum(metadata, in, Map.of()).equals(checksum);
        } catch (KcpException tensorsOfTypesToCome) {
            return false;
        }
    }

    /**
     * Reads and checks all of a file.
     *
     * @param identity what the file must be of
     * @param buffers overwritten; of no use after a throw
     * @throws KcpException with {@code BAD_DATA} if the file is cut short, damaged, no saved state of this version, or holds
     *     numbers that are not finite
     * @throws IllegalArgumentException if it is whole but belongs to another run
     */
    static RunPosition read(Path file, Map<String, String> identity, StateBuffers buffers) {
        try (Safetensors in = Safetensors.open(file)) {
            SortedMap<String, String> metadata = new TreeMap<>(in.metadata());
            String checksum = metadata.remove(CHECKSUM);
            if (!FORMAT.equals(metadata.get("format")) || checksum == null) {
                throw bad(file, "is no saved state of kcp train: format=" + metadata.get("format"), null);
            }
            Map<String, Tensor> tensors = buffers.tensors();
            String actual = checksum(metadata, in, tensors);
            if (!actual.equals(checksum)) {
                throw bad(file, "is damaged: checksum=" + actual + " expected=" + checksum, null);
            }
            SortedMap<String, String> saved = new TreeMap<>();
            metadata.forEach((name, value) -> {
                if (name.startsWith("run.")) {
                    saved.put(name.substring("run.".length()), value);
                }
            });
            RunIdentity.check(identity, saved, file);
            tensors.forEach((name, to) -> requireSame(file, in, name, to));
            buffers.notFinite().ifPresent(where -> {
                throw bad(file, "holds numbers that are not finite: " + where, null);
            });
            return position(file, metadata);
        }
    }

    private static RunPosition position(Path file, Map<String, String> metadata) {
        try {
            return new RunPosition(
                    Integer.parseInt(metadata.get("step")),
                    new DataPosition(
                            Long.parseLong(metadata.get("data.epoch")),
                            Integer.parseInt(metadata.get("data.document")),
                            Integer.parseInt(metadata.get("data.token"))),
                    Double.parseDouble(metadata.get("first_loss")),
                    Double.parseDouble(metadata.get("last_loss")));
        } catch (IllegalArgumentException | NullPointerException e) {
            throw bad(file, "does not say where its run stood: metadata=" + metadata, e);
        }
    }

    private static void requireSame(Path file, Safetensors in, String name, Tensor to) {
        if (!isSame(in, name, to)) {
            throw bad(
                    file, "lacks a tensor of this run: tensor=" + name + " shape=" + Arrays.toString(to.shape()), null);
        }
    }

    private static boolean isSame(Safetensors in, String name, Tensor to) {
        return in.has(name)
                && Arrays.equals(in.shape(name), to.shape())
                && in.dtypeName(name).equals(to.dtype().name());
    }

    /** Of a file as it is, whatever run it is of; what fits into one of {@code to} is copied there. */
    private static String checksum(SortedMap<String, String> metadata, Safetensors in, Map<String, Tensor> to) {
        CRC32C sum = checksum(metadata);
        for (String name : in.names()) {
            try (Tensor from = in.read(name)) {
                update(sum, name, from);
                if (to.containsKey(name) && isSame(in, name, to.get(name))) {
                    to.get(name).segment().copyFrom(from.segment());
                }
            }
        }
        return text(sum);
    }

    private static String checksum(SortedMap<String, String> metadata, Map<String, Tensor> tensors) {
        CRC32C sum = checksum(metadata);
        tensors.forEach((name, tensor) -> update(sum, name, tensor));
        return text(sum);
    }

    private static CRC32C checksum(SortedMap<String, String> metadata) {
        CRC32C sum = new CRC32C();
        metadata.forEach((name, value) -> sum.update((name + "=" + value + "\n").getBytes(StandardCharsets.UTF_8)));
        return sum;
    }

    private static void update(CRC32C sum, String name, Tensor tensor) {
        sum.update((name + "\n").getBytes(StandardCharsets.UTF_8));
        MemorySegment bytes = tensor.segment();
        for (long at = 0; at < bytes.byteSize(); at += CHUNK_BYTES) {
            sum.update(bytes.asSlice(at, Math.min(CHUNK_BYTES, bytes.byteSize() - at))
                    .asByteBuffer());
        }
    }

    private static String text(CRC32C sum) {
        return "crc32c:" + Long.toHexString(sum.getValue());
    }

    private static KcpException bad(Path file, String what, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, file + " " + what, cause);
    }
}
