package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.zip.CRC32C;

/**
 * One saved state: a safetensors file with every parameter's value and moments, and as metadata the position, the run's
 * identity and a checksum over all of it.
 */
final class StateFile {
    private static final String FORMAT = "kcp-train-1";
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

    /**
     * Reads and checks all of a file.
     *
     * @param identity what the file must be of
     * @param buffers overwritten; of no use after a throw
     * @throws KcpException with {@code BAD_DATA} if the file is cut short, damaged or no saved state
     * @throws IllegalArgumentException if it is whole but belongs to another run
     */
    static RunPosition read(Path file, Map<String, String> identity, StateBuffers buffers) {
        try (Safetensors in = Safetensors.open(file)) {
            SortedMap<String, String> metadata = new TreeMap<>(in.metadata());
            String checksum = metadata.remove(CHECKSUM);
            if (!FORMAT.equals(metadata.get("format")) || checksum == null) {
                throw bad(file, "is no saved state of kcp train: format=" + metadata.get("format"), null);
            }
            SortedMap<String, String> saved = new TreeMap<>();
            metadata.forEach((name, value) -> {
                if (name.startsWith("run.")) {
                    saved.put(name.substring("run.".length()), value);
                }
            });
            boolean sameShape = saved.getOrDefault("layers", "").equals(identity.get("layers"))
                    && saved.getOrDefault("channels", "").equals(identity.get("channels"));
            if (!sameShape) {
                // Its tensors have no place in this run, so the header alone speaks.
                RunIdentity.check(identity, saved, file);
            }
            Map<String, Tensor> tensors = buffers.tensors();
            tensors.forEach((name, to) -> copy(file, in, name, to));
            String actual = checksum(metadata, tensors);
            if (!actual.equals(checksum)) {
                throw bad(file, "is damaged: checksum=" + actual + " expected=" + checksum, null);
            }
            RunIdentity.check(identity, saved, file);
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

    private static void copy(Path file, Safetensors in, String name, Tensor to) {
        if (!in.has(name) || !Arrays.equals(in.shape(name), to.shape())) {
            throw bad(
                    file, "lacks a tensor of this run: tensor=" + name + " shape=" + Arrays.toString(to.shape()), null);
        }
        try (Tensor from = in.read(name)) {
            if (from.dtype() != to.dtype()) {
                throw bad(file, "has a tensor of another type: tensor=" + name + " dtype=" + from.dtype(), null);
            }
            to.segment().copyFrom(from.segment());
        }
    }

    private static String checksum(SortedMap<String, String> metadata, Map<String, Tensor> tensors) {
        CRC32C sum = new CRC32C();
        metadata.forEach((name, value) -> sum.update((name + "=" + value + "\n").getBytes(StandardCharsets.UTF_8)));
        tensors.forEach((name, tensor) -> {
            sum.update((name + "\n").getBytes(StandardCharsets.UTF_8));
            MemorySegment bytes = tensor.segment();
            for (long at = 0; at < bytes.byteSize(); at += CHUNK_BYTES) {
                sum.update(bytes.asSlice(at, Math.min(CHUNK_BYTES, bytes.byteSize() - at))
                        .asByteBuffer());
            }
        });
        return "crc32c:" + Long.toHexString(sum.getValue());
    }

    private static KcpException bad(Path file, String what, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, file + " " + what, cause);
    }
}
