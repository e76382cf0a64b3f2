package dev.kcp.tensor;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.Arguments;
import dev.kcp.KcpException;
import java.io.CharArrayReader;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a safetensors file says of itself: 8 bytes of length, then JSON. Whoever has one has a file that can hold what it
 * describes; the file's bytes are all described, once.
 *
 * @param dataBegin the file's first byte after the header
 * @param entries by name, in the header's order
 */
record SafetensorsHeader(long dataBegin, Map<String, Entry> entries, Map<String, String> metadata) {
    private static final int LENGTH_BYTES = Long.BYTES;
    private static final String METADATA = "__metadata__";
    private static final long MAX_HEADER_BYTES = 100_000_000;
    /** Of this program's own, not the parser's: a header's length bounds all that is in it. */
    private static final StreamReadConstraints NO_LIMITS = StreamReadConstraints.builder()
            .maxStringLength(Integer.MAX_VALUE)
            .maxNameLength(Integer.MAX_VALUE)
            .build();

    private static final ObjectMapper JSON = JsonMapper.builder(
                    JsonFactory.builder().streamReadConstraints(NO_LIMITS).build())
            .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();

    /**
     * Bits of an element of the types that the format knew when this was written, also of those that no tensor here can
     * have. Of a type that came later only the place is checked.
     */
    private static final Map<String, Integer> ELEMENT_BITS = Map.ofEntries(
            Map.entry("C64", 64),
            Map.entry("F64", 64),
            Map.entry("F32", 32),
            Map.entry("F16", 16),
            Map.entry("BF16", 16),
            Map.entry("F8_E4M3", 8),
            Map.entry("F8_E5M2", 8),
            Map.entry("F8_E8M0", 8),
            Map.entry("F6_E2M3", 6),
            Map.entry("F6_E3M2", 6),
            Map.entry("F4", 4),
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
    record Entry(String name, String dtype, long[] shape, long begin, long end) {}

    /**
     * Reads a file's header and checks it against the file.
     *
     * @throws KcpException with code BAD_DATA if it is no header, or the file is not what it says
     */
    static SafetensorsHeader read(Path path, FileChannel channel) throws IOException {
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
        JsonNode header = json(path, readFully(path, channel, LENGTH_BYTES, (int) headerBytes));
        Map<String, Entry> entries = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> field : header.properties()) {
            if (!field.getKey().equals(METADATA)) {
                entries.put(field.getKey(), entry(path, field.getKey(), field.getValue()));
            }
        }
        checkLayout(path, entries, fileBytes - LENGTH_BYTES - headerBytes);
        return new SafetensorsHeader(LENGTH_BYTES + headerBytes, entries, metadata(path, header));
    }

    private static JsonNode json(Path path, ByteBuffer bytes) throws IOException {
        if (bytes.get(0) != '{') {
            throw bad(
                    path,
                    "has a header that does not begin with '{', as one in UTF-8 without a byte order mark does:"
                            + " firstByte=0x" + Integer.toHexString(bytes.get(0) & 0xFF),
                    null);
        }
        try {
            // Decoded here: the parser would guess at other encodings.
            CharBuffer text = StandardCharsets.UTF_8.newDecoder().decode(bytes);
            return JSON.readTree(new CharArrayReader(text.array(), text.arrayOffset(), text.remaining()));
        } catch (CharacterCodingException e) {
            throw bad(path, "has a header that is not UTF-8", e);
        } catch (JsonProcessingException e) {
            throw bad(path, "has a header that is not JSON: " + e.getOriginalMessage(), e);
        }
    }

    private static Map<String, String> metadata(Path path, JsonNode header) {
        JsonNode texts = header.path(METADATA);
        if (!texts.isMissingNode() && !texts.isObject()) {
            throw bad(
                    path,
                    "has metadata that is no map of text: " + METADATA + " is of type " + texts.getNodeType(),
                    null);
        }
        Map<String, String> metadata = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> field : texts.properties()) {
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
        Integer elementBits = ELEMENT_BITS.get(dtype);
        long[] shape = new long[shapeNode.size()];
        long bits = elementBits == null ? 0 : elementBits;
        try {
            for (int i = 0; i < shape.length; i++) {
                shape[i] = natural(path, name, "shape", shapeNode.get(i));
                bits = Math.multiplyExact(bits, shape[i]);
            }
        } catch (ArithmeticException e) {
            throw bad(path, "has a tensor larger than 2^63 bits: tensor=" + name + " shape=" + shapeNode, e);
        }
        long begin = natural(path, name, "data_offsets", offsets.get(0));
        long end = natural(path, name, "data_offsets", offsets.get(1));
        if (end < begin || elementBits != null && (bits % 8 != 0 || end - begin != bits / 8)) {
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

    /** The bytes of a file before its tensors, which follow without gaps in this order. */
    static ByteBuffer describing(Map<String, Tensor> tensors, Map<String, String> metadata) {
        ObjectNode header = JSON.createObjectNode();
        if (tensors.containsKey(METADATA)) {
            throw new IllegalArgumentException("no tensor can have the name of the metadata: tensor=" + METADATA);
        }
        metadata.forEach((key, text) -> Arguments.present("metadata " + key, text));
        if (!metadata.isEmpty()) {
            ObjectNode texts = header.putObject(METADATA);
            metadata.forEach(texts::put);
        }
        long offset = 0;
        for (Map.Entry<String, Tensor> field : tensors.entrySet()) {
            long bytes = Arguments.present(field.getKey(), field.getValue())
                    .segment()
                    .byteSize();
            ObjectNode entry = header.putObject(field.getKey());
            entry.put("dtype", field.getValue().dtype().name());
            for (long extent : field.getValue().shape()) {
                entry.withArray("shape").add(extent);
            }
            entry.putArray("data_offsets").add(offset).add(offset + bytes);
            offset += bytes;
        }
        byte[] json = header.toString().getBytes(StandardCharsets.UTF_8);
        int padding = -json.length & 7;
        return ByteBuffer.allocate(LENGTH_BYTES + json.length + padding)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(json.length + padding)
                .put(json)
                .put(" ".repeat(padding).getBytes(StandardCharsets.UTF_8))
                .flip();
    }

    private static ByteBuffer readFully(Path path, FileChannel channel, long position, int bytes) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
        fill(path, channel, position, buffer);
        return buffer.flip();
    }

    /** Fills the buffer from the file's bytes at a position on. */
    static void fill(Path path, FileChannel channel, long position, ByteBuffer buffer) throws IOException {
        long at = position;
        while (buffer.hasRemaining()) {
            int read = channel.read(buffer, at);
            if (read < 0) {
                throw bad(path, "became shorter while it was read: position=" + at, null);
            }
            at += read;
        }
    }

    static KcpException bad(Path path, String what, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, path + " " + what, cause);
    }
}
