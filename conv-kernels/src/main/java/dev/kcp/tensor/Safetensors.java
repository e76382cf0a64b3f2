package dev.kcp.tensor;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.KcpException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A safetensors file: 8 bytes of header length, a JSON header, then the tensors' bytes without gaps. Everything the header
 * says is checked against the file before anything is read; a file that lies is refused with code BAD_DATA.
 */
public final class Safetensors implements AutoCloseable {
    private static final int LENGTH_BYTES = Long.BYTES;
    private static final String METADATA = "__metadata__";
    private static final long MAX_HEADER_BYTES = 100_000_000;
    private static final int COPY_BYTES = 1 << 26;
    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();

    /** Bits of an element of every type that the format knows, also of those that no tensor here can have. */
    private static final Map<String, Integer> ELEMENT_BITS = Map.ofEntries(
            Map.entry("F64", 64),
            Map.entry("F32", 32),
            Map.entry("F16", 16),
            Map.entry("BF16", 16),
            Map.entry("F8_E4M3", 8),
            Map.entry("F8_E5M2", 8),
            Map.entry("I64", 64),
            Map.entry("I32", 32),
            Map.entry("I16", 16),
            Map.entry("I8", 8),
            Map.entry("U64", 64),
            Map.entry("U32", 32),
            Map.entry("U16", 16),
            Map.entry("U8", 8),
            Map.entry("BOOL", 8));

    /**
     * One tensor's place in the file.
     *
     * @param begin first byte after the header
     */
    private record Entry(String name, String dtype, long[] shape, long begin, long end) {}

    private final Path path;
    private final FileChannel channel;
    private final long dataBegin;
    private final Map<String, Entry> entries;
    private final Map<String, String> metadata;

    private Safetensors(
            Path path, FileChannel channel, long dataBegin, Map<String, Entry> entries, Map<String, String> metadata) {
        this.path = path;
        this.channel = channel;
        this.dataBegin = dataBegin;
        this.entries = entries;
        this.metadata = metadata;
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
            return parse(path, channel);
        } catch (IOException e) {
            closeQuietly(channel);
            throw bad(path, "cannot be read: " + e.getMessage(), e);
        } catch (RuntimeException e) {
            closeQuietly(channel);
            throw e;
        }
    }

    private static Safetensors parse(Path path, FileChannel channel) throws IOException {
        long fileBytes = channel.size();
        if (fileBytes < LENGTH_BYTES) {
            throw bad(path, "is too short for a safetensors file: bytes=" + fileBytes, null);
        }
        long headerBytes = readFully(path, channel, 0, LENGTH_BYTES).getLong();
        if (headerBytes < 2 || headerBytes > Math.min(MAX_HEADER_BYTES, fileBytes - LENGTH_BYTES)) {
            throw bad(
                    path,
                    "is not a whole safetensors file, it claims a header that it cannot hold: headerBytes="
                            + Long.toUnsignedString(headerBytes) + " fileBytes=" + fileBytes,
                    null);
        }
        JsonNode header;
        try {
            header = JSON.readTree(
                    readFully(path, channel, LENGTH_BYTES, (int) headerBytes).array());
        } catch (JsonProcessingException e) {
            throw bad(path, "has a header that is not JSON: " + e.getOriginalMessage(), e);
        }
        if (header == null || !header.isObject()) {
            throw bad(path, "has a header that is not a JSON object", null);
        }
        Map<String, Entry> entries = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> field : header.properties()) {
            if (!field.getKey().equals(METADATA)) {
                entries.put(field.getKey(), entry(path, field.getKey(), field.getValue()));
            }
        }
        checkLayout(path, entries, fileBytes - LENGTH_BYTES - headerBytes);
        return new Safetensors(path, channel, LENGTH_BYTES + headerBytes, entries, metadata(path, header));
    }

    private static Map<String, String> metadata(Path path, JsonNode header) {
        Map<String, String> metadata = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> field : header.path(METADATA).properties()) {
            if (!field.getValue().isTextual()) {
                throw bad(path, "has metadata that is no text: key=" + field.getKey(), null);
            }
            metadata.put(field.getKey(), field.getValue().asText());
        }
        return metadata;
    }

    private static Entry entry(Path path, String name, JsonNode node) {
        JsonNode shapeNode = node.path("shape");
        JsonNode offsets = node.path("data_offsets");
        if (!node.path("dtype").isTextual() || !shapeNode.isArray() || !offsets.isArray() || offsets.size() != 2) {
            throw bad(path, "describes a tensor without dtype, shape and two data_offsets: tensor=" + name, null);
        }
        String dtype = node.path("dtype").asText();
        Integer bits = ELEMENT_BITS.get(dtype);
        if (bits == null) {
            throw bad(path, "has a tensor of unknown type: tensor=" + name + " dtype=" + dtype, null);
        }
        long[] shape = new long[shapeNode.size()];
        long bytes = bits / 8;
        try {
            for (int i = 0; i < shape.length; i++) {
                shape[i] = natural(path, name, "shape", shapeNode.get(i));
                bytes = Math.multiplyExact(bytes, shape[i]);
            }
        } catch (ArithmeticException e) {
            throw bad(path, "has a tensor larger than 2^63 bytes: tensor=" + name + " shape=" + shapeNode, e);
        }
        long begin = natural(path, name, "data_offsets", offsets.get(0));
        long end = natural(path, name, "data_offsets", offsets.get(1));
        if (end < begin || end - begin != bytes) {
            throw bad(
                    path,
                    "has a tensor whose bytes do not match its shape: tensor=" + name + " dtype=" + dtype + " shape="
                            + shapeNode + " data_offsets=" + offsets,
                    null);
        }
        return new Entry(name, dtype, shape, begin, end);
    }

    private static long natural(Path path, String tensor, String field, JsonNode node) {
        if (!node.isIntegralNumber() || !node.canConvertToLong() || node.longValue() < 0) {
            throw bad(path, "has a number that is none or negative: tensor=" + tensor + " " + field + "=" + node, null);
        }
        return node.longValue();
    }

    private static void checkLayout(Path path, Map<String, Entry> entries, long dataBytes) {
        List<Entry> inOrder = new ArrayList<>(entries.values());
        inOrder.sort(Comparator.comparingLong(Entry::begin).thenComparingLong(Entry::end));
        long end = 0;
        for (Entry entry : inOrder) {
            if (entry.begin() != end) {
                throw bad(
                        path,
                        "has tensors that overlap or leave a gap: tensor=" + entry.name() + " begin=" + entry.begin()
                                + " expected=" + end,
                        null);
            }
            end = entry.end();
        }
        if (end != dataBytes) {
            throw bad(
                    path,
                    (end > dataBytes ? "is cut short" : "has bytes after its last tensor") + ": dataBytes=" + dataBytes
                            + " described=" + end,
                    null);
        }
    }

    /** Names of all tensors, in the header's order. */
    public List<String> names() {
        return List.copyOf(entries.keySet());
    }

    /** Texts that the file's writer put beside the tensors. */
    public Map<String, String> metadata() {
        return Map.copyOf(metadata);
    }

    /** Whether the file has a tensor of this name. */
    public boolean has(String name) {
        return entries.containsKey(name);
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

    /** Rows {@code [begin, end)} of a tensor, rows being runs of the last extent, into dense rows of {@code to}. */
    public void readRows(String name, long begin, long end, Tensor to) {
        Entry entry = require(name);
        long rowBytes = entry.shape()[entry.shape().length - 1] * dtype(entry).bytes();
        readInto(entry, begin * rowBytes, end * rowBytes, to.segment());
    }

    private void readInto(Entry entry, long begin, long end, MemorySegment to) {
        try {
            for (long at = begin; at < end; ) {
                int bytes = (int) Math.min(COPY_BYTES, end - at);
                ByteBuffer buffer = to.asSlice(at - begin, bytes).asByteBuffer();
                fill(path, channel, dataBegin + entry.begin() + at, buffer);
                at += bytes;
            }
        } catch (IOException e) {
            throw bad(path, "cannot be read: " + e.getMessage(), e);
        }
    }

    private Entry require(String name) {
        Entry entry = entries.get(name);
        if (entry == null) {
            throw bad(path, "lacks a tensor: tensor=" + name + " found=" + entries.keySet(), null);
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

    private static ByteBuffer readFully(Path path, FileChannel channel, long position, int bytes) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
        fill(path, channel, position, buffer);
        return buffer.flip();
    }

    private static void fill(Path path, FileChannel channel, long position, ByteBuffer buffer) throws IOException {
        long at = position;
        while (buffer.hasRemaining()) {
            int read = channel.read(buffer, at);
            if (read < 0) {
                throw bad(path, "became shorter while it was read: position=" + at, null);
            }
            at += read;
        }
    }

    /**
     * Writes dense host tensors under a temporary name and renames the file, so that nobody sees a part of it.
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
        ObjectNode header = JSON.createObjectNode();
        if (!metadata.isEmpty()) {
            ObjectNode texts = header.putObject(METADATA);
            metadata.forEach(texts::put);
        }
        long offset = 0;
        for (Map.Entry<String, Tensor> field : tensors.entrySet()) {
            MemorySegment bytes = field.getValue().segment();
            ObjectNode entry = header.putObject(field.getKey());
            entry.put("dtype", field.getValue().dtype().name());
            for (long extent : field.getValue().shape()) {
                entry.withArray("shape").add(extent);
            }
            entry.putArray("data_offsets").add(offset).add(offset + bytes.byteSize());
            offset += bytes.byteSize();
        }
        byte[] json = header.toString().getBytes(StandardCharsets.UTF_8);
        int padding = -json.length & 7;
        Path folder = path.toAbsolutePath().getParent();
        Path part = null;
        try {
            part = folder.resolve(
                    "." + path.getFileName() + "." + ProcessHandle.current().pid() + ".part");
            try (FileChannel out = FileChannel.open(part, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW)) {
                ByteBuffer head = ByteBuffer.allocate(LENGTH_BYTES + json.length + padding)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(json.length + padding)
                        .put(json)
                        .put(" ".repeat(padding).getBytes(StandardCharsets.UTF_8));
                writeFully(out, head.flip());
                for (Tensor tensor : tensors.values()) {
                    MemorySegment bytes = tensor.segment();
                    for (long at = 0; at < bytes.byteSize(); at += COPY_BYTES) {
                        writeFully(
                                out,
                                bytes.asSlice(at, Math.min(COPY_BYTES, bytes.byteSize() - at))
                                        .asByteBuffer());
                    }
                }
                if (isDurable) {
                    out.force(true);
                }
            }
            Files.move(part, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            if (isDurable) {
                // The name is in the folder, which is written by itself.
                try (FileChannel names = FileChannel.open(folder, StandardOpenOption.READ)) {
                    names.force(true);
                }
            }
        } catch (IOException e) {
            deleteQuietly(part);
            throw bad(path, "cannot be written: " + e.getMessage(), e);
        }
    }

    private static void writeFully(FileChannel out, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            out.write(bytes);
        }
    }

    private static void deleteQuietly(Path part) {
        try {
            if (part != null) {
                Files.deleteIfExists(part);
            }
        } catch (IOException e) {
            // The failure that led here is the one to report.
        }
    }

    private static void closeQuietly(FileChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            // The failure that led here is the one to report.
        }
    }

    private static KcpException bad(Path path, String what, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, path + " " + what, cause);
    }

    @Override
    public void close() {
        closeQuietly(channel);
    }
}
