package dev.kcp.tensor;

import static dev.kcp.tensor.SafetensorsHeader.bad;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import dev.kcp.files.WholeFile;
import dev.kcp.tensor.SafetensorsHeader.Entry;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * A safetensors file: 8 bytes of header length, a JSON header, then the tensors' bytes without gaps. Everything the header
 * says is checked against the file before anything is read; a file that lies is refused with code BAD_DATA.
 */
public final class Safetensors implements AutoCloseable {
    private static final int COPY_BYTES = 1 << 26;

    private final Path path;
    private final FileChannel channel;
    private final SafetensorsHeader header;

    private Safetensors(Path path, FileChannel channel, SafetensorsHeader header) {
        this.path = path;
        this.channel = channel;
        this.header = header;
    }

    /**
     * Opens and checks a file.
     *
     * @throws KcpException with code BAD_DATA: missing, unreadable, cut short, or not what its header says
     */
    public static Safetensors open(Path path) {
        FileChannel channel;
        try {
            channel = FileChannel.open(path, StandardOpenOption.READ);
        } catch (IOException e) {
            throw bad(path, (Files.exists(path) ? "cannot be read" : "does not exist"), e);
        }
        try {
            return new Safetensors(path, channel, SafetensorsHeader.read(path, channel));
        } catch (IOException e) {
            closeQuietly(channel);
            throw bad(path, "cannot be read: " + e.getMessage(), e);
        } catch (RuntimeException e) {
            closeQuietly(channel);
            throw e;
        }
    }

    /** Names of all tensors, in the header's order. */
    public List<String> names() {
        return List.copyOf(header.entries().keySet());
    }

    /** Texts that the file's writer put beside the tensors. */
    public Map<String, String> metadata() {
        return Map.copyOf(header.metadata());
    }

    /** Whether the file has a tensor of this name. */
    public boolean has(String name) {
        return header.entries().containsKey(name);
    }

    /** A tensor's type by its name in the file, for example {@code BF16}. */
    public String dtypeName(String name) {
        return require(name).dtype();
    }

    /**
     * A tensor's extents.
     *
     * @throws KcpException with code BAD_DATA if the file lacks it
     */
    public long[] shape(String name) {
        return require(name).shape().clone();
    }

    /**
     * A copy of a whole tensor, closed by the caller.
     *
     * @throws KcpException with code BAD_DATA if the file lacks it or its type is none of {@link DType}
     */
    public Tensor read(String name) {
        Entry entry = require(name);
        Tensor tensor = Tensor.zeros(dtype(entry), entry.shape().length == 0 ? new long[] {1} : entry.shape());
        try {
            readInto(entry, 0, entry.end() - entry.begin(), tensor.segment());
            return tensor;
        } catch (RuntimeException e) {
            tensor.close();
            throw e;
        }
    }

    /**
     * Rows {@code [begin, end)} of a tensor, rows being runs of the last extent, into dense rows of {@code to}.
     *
     * @throws IllegalArgumentException if the tensor has no such rows, or {@code to} is of another type or too small
     */
    public void readRows(String name, long begin, long end, Tensor to) {
        Entry entry = require(name);
        DType dtype = dtype(entry);
        int last = entry.shape().length - 1;
        long columns = last < 0 ? 1 : entry.shape()[last];
        long rowBytes = columns * dtype.bytes();
        long rows = Arrays.stream(entry.shape()).limit(Math.max(0, last)).reduce(1, (a, b) -> a * b);
        if (begin < 0 || end < begin || end > rows) {
            throw new IllegalArgumentException(
                    "no such rows: tensor=" + name + " begin=" + begin + " end=" + end + " rows=" + rows);
        }
        if (to.dtype() != dtype || to.elements() < (end - begin) * columns) {
            throw new IllegalArgumentException("no room for the rows, or of another type: tensor=" + name + " dtype="
                    + dtype + " rows=" + (end - begin) + " columns=" + columns + " to=" + to);
        }
        readInto(entry, begin * rowBytes, end * rowBytes, to.segment());
    }

    private void readInto(Entry entry, long begin, long end, MemorySegment to) {
        try {
            for (long at = begin; at < end; ) {
                int bytes = (int) Math.min(COPY_BYTES, end - at);
                ByteBuffer buffer = to.asSlice(at - begin, bytes).asByteBuffer();
                SafetensorsHeader.fill(path, channel, header.dataBegin() + entry.begin() + at, buffer);
                at += bytes;
            }
        } catch (IOException e) {
            throw bad(path, "cannot be read: " + e.getMessage(), e);
        }
    }

    private Entry require(String name) {
        Entry entry = header.entries().get(name);
        if (entry == null) {
            throw bad(
                    path,
                    "lacks a tensor: tensor=" + name + " found="
                            + header.entries().keySet(),
                    null);
        }
        return entry;
    }

    private DType dtype(Entry entry) {
        for (DType dtype : DType.values()) {
            if (dtype.name().equals(entry.dtype())) {
                return dtype;
            }
        }
        throw bad(
                path, "has a tensor of a type not used here: tensor=" + entry.name() + " dtype=" + entry.dtype(), null);
    }

    /**
     * Writes dense host tensors as a {@link WholeFile}, so that nobody sees a part of a plain file.
     *
     * @throws KcpException with code BAD_DATA if the file cannot be written
     */
    public static void write(Path path, Map<String, Tensor> tensors) {
        write(path, tensors, Map.of(), false);
    }

    /**
     * As {@link #write}, with metadata; once this returns, the whole file under its name outlives a power cut.
     *
     * @param metadata texts by key
     */
    public static void writeDurably(Path path, Map<String, Tensor> tensors, Map<String, String> metadata) {
        write(path, tensors, metadata, true);
    }

    private static void write(Path path, Map<String, Tensor> tensors, Map<String, String> metadata, boolean isDurable) {
        ByteBuffer head = SafetensorsHeader.describing(tensors, metadata);
        WholeFile.Content content = out -> {
            WholeFile.writeFully(out, head.duplicate());
            for (Tensor tensor : tensors.values()) {
                MemorySegment bytes = tensor.segment();
                for (long at = 0; at < bytes.byteSize(); at += COPY_BYTES) {
                    WholeFile.writeFully(
                            out,
                            bytes.asSlice(at, Math.min(COPY_BYTES, bytes.byteSize() - at))
                                    .asByteBuffer());
                }
            }
        };
        try {
            if (isDurable) {
                WholeFile.writeDurably(path, content);
            } else {
                WholeFile.write(path, content);
            }
        } catch (IOException e) {
            throw bad(path, "cannot be written: " + FileFailures.reason(e), e);
        }
    }

    private static void closeQuietly(FileChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            // The failure that led here is the one to report.
        }
    }

    @Override
    public void close() {
        closeQuietly(channel);
    }
}
