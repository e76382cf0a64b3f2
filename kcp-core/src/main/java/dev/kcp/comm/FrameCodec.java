package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.tensor.DType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * Frames as bytes, big-endian. A frame is its length in bytes after this field, a type, and the type's fields; texts are
 * a 16-bit length and UTF-8. Payload frames end in payload.
 *
 * <pre>
 * | length:4 | type:1 | fields ...             |
 * | length:4 | 2      | group text | payload   |
 * </pre>
 */
final class FrameCodec {
    static final int LENGTH_BYTES = 4;
    static final byte HEADER = 1;
    static final byte PAYLOAD = 2;
    static final byte ABORT = 3;
    static final byte LEAVE = 4;
    static final byte BYE = 5;
    static final byte BYE_SEEN = 6;
    static final byte STATEMENT = 7;
    /** Most bytes of a frame without payload. */
    static final int MAX_CONTROL_BYTES = 64 * 1024;
    /** Most payload of one frame: a control frame never waits for more than this. */
    static final int MAX_PAYLOAD_BYTES = 1024 * 1024;

    private static final Call.Kind[] KINDS = Call.Kind.values();
    private static final DType[] DTYPES = DType.values();
    private static final KcpException.Code[] CODES = KcpException.Code.values();
    private static final int NO_DTYPE = -1;

    private FrameCodec() {}

    /** Writes a frame without payload, ready to be read. */
    static ByteBuffer encode(Frame frame) {
        return switch (frame) {
            case Frame.Header h -> {
                byte[] group = utf8(h.group());
                byte[] label = utf8(h.record().label());
                ByteBuffer out = begin(HEADER, 2 + group.length + 8 + 1 + 1 + 2 + label.length + 8 + 1 + 8 + 8);
                putText(out, group).putLong(h.call()).put((byte) h.phase());
                out.put((byte) h.record().kind().ordinal());
                putText(out, label).putLong(h.record().channels());
                DType dtype = h.record().dtype();
                out.put((byte) (dtype == null ? NO_DTYPE : dtype.ordinal()));
                yield out.putLong(h.record().planDigest()).putLong(h.bytes()).flip();
            }
            case Frame.Abort(Failure f) -> {
                byte[] message = utf8(f.message());
                ByteBuffer out = begin(ABORT, 1 + 4 + 8 + 2 + message.length);
                out.put((byte) f.code().ordinal()).putInt(f.origin()).putLong(f.call());
                yield putText(out, message).flip();
            }
            case Frame.Statement(String name, long number, String text) -> {
                byte[] group = utf8(name);
                byte[] said = utf8(text);
                ByteBuffer out = begin(STATEMENT, 2 + group.length + 8 + 2 + said.length);
                yield putText(putText(out, group).putLong(number), said).flip();
            }
            case Frame.Leave(String name) -> {
                byte[] group = utf8(name);
                yield putText(begin(LEAVE, 2 + group.length), group).flip();
            }
            case Frame.Bye _ -> begin(BYE, 0).flip();
            case Frame.ByeSeen _ -> begin(BYE_SEEN, 0).flip();
        };
    }

    /** Writes the part of a payload frame that comes before the payload. */
    static ByteBuffer encodePayloadHead(String group, int payloadBytes) {
        byte[] name = utf8(group);
        ByteBuffer out = ByteBuffer.allocate(LENGTH_BYTES + 1 + 2 + name.length);
        out.putInt(1 + 2 + name.length + payloadBytes).put(PAYLOAD);
        return putText(out, name).flip();
    }

    /**
     * Reads a frame whose type was read already.
     *
     * @throws RuntimeException if the bytes are no frame
     */
    static Frame decode(byte type, ByteBuffer in) {
        return switch (type) {
            case HEADER -> {
                String group = text(in);
                long call = in.getLong();
                int phase = in.get();
                Call.Kind kind = KINDS[in.get()];
                String label = text(in);
                long channels = in.getLong();
                int dtype = in.get();
                Call record = new Call(kind, label, channels, dtype == NO_DTYPE ? null : DTYPES[dtype], in.getLong());
                long bytes = in.getLong();
                if (call < 0 || phase < 0 || bytes < 0) {
                    throw new IllegalStateException(
                            "negative field: call=" + call + " phase=" + phase + " bytes=" + bytes);
                }
                yield new Frame.Header(group, call, phase, record, bytes);
            }
            case ABORT -> new Frame.Abort(new Failure(CODES[in.get()], in.getInt(), in.getLong(), text(in)));
            case STATEMENT -> new Frame.Statement(text(in), in.getLong(), text(in));
            case LEAVE -> new Frame.Leave(text(in));
            case BYE -> new Frame.Bye();
            case BYE_SEEN -> new Frame.ByeSeen();
            default -> throw new IllegalStateException("unknown frame: type=" + type);
        };
    }

    static String text(ByteBuffer in) {
        byte[] bytes = new byte[Short.toUnsignedInt(in.getShort())];
        in.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static ByteBuffer begin(byte type, int fieldBytes) {
        return ByteBuffer.allocate(LENGTH_BYTES + 1 + fieldBytes)
                .putInt(1 + fieldBytes)
                .put(type);
    }

    private static ByteBuffer putText(ByteBuffer out, byte[] utf8) {
        return out.putShort((short) utf8.length).put(utf8);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
