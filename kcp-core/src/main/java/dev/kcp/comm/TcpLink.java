package dev.kcp.comm;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;

/**
 * One connection to one peer. Senders write as much as the socket takes and queue the rest, which the wire's I/O thread
 * writes when there is room; reads happen on that thread only. So nobody ever waits for a peer here.
 */
final class TcpLink {
    private static final int IN_BYTES = 256 * 1024;
    private static final int READS_PER_TURN = 8;

    private final int peer;
    private final SocketChannel channel;
    private final SelectionKey key;
    private final Mesh mesh;

    private final MemorySegment inMemory;
    private final ByteBuffer in;
    private String payloadGroup;
    private long payloadBytesLeft;

    private final Object writeLock = new Object();
    private final ArrayDeque<Item> queue = new ArrayDeque<>();
    private boolean broken;

    /** Bytes to write: a head of our own, then perhaps payload in the caller's memory. */
    private static final class Item {
        private final ByteBuffer head;
        private final Flush flush;
        private final boolean lastOfMessage;
        private ByteBuffer payload;

        Item(ByteBuffer head, ByteBuffer payload, Flush flush, boolean lastOfMessage) {
            this.head = head;
            this.payload = payload;
            this.flush = flush;
            this.lastOfMessage = lastOfMessage;
        }

        boolean isStarted() {
            return head.position() > 0;
        }

        boolean isWritten() {
            return !head.hasRemaining() && (payload == null || !payload.hasRemaining());
        }

        /** Makes what is left independent of the caller's memory. */
        void ownPayload() {
            if (payload != null) {
                ByteBuffer copy = ByteBuffer.allocate(payload.remaining());
                payload = copy.put(payload).flip();
            }
        }
    }

    TcpLink(int peer, SocketChannel channel, SelectionKey key, Mesh mesh, Arena arena) {
        this.peer = peer;
        this.channel = channel;
        this.key = key;
        this.mesh = mesh;
        this.inMemory = arena.allocate(IN_BYTES);
        this.in = inMemory.asByteBuffer();
    }

    int peer() {
        return peer;
    }

    void send(Frame frame) {
        synchronized (writeLock) {
            enqueue(new Item(FrameCodec.encode(frame), null, null, false));
            write();
        }
    }

    void send(Frame.Header header, List<MemorySegment> pieces, Flush flush) {
        synchronized (writeLock) {
            if (broken) {
                return;
            }
            if (pieces.isEmpty()) {
                enqueue(new Item(FrameCodec.encode(header), null, null, false));
            } else {
                flush.queued(peer);
                enqueuePayload(header, pieces, flush);
            }
            write();
        }
    }

    private void enqueuePayload(Frame.Header header, List<MemorySegment> pieces, Flush flush) {
        ByteBuffer before = FrameCodec.encode(header);
        for (int i = 0; i < pieces.size(); i++) {
            MemorySegment piece = pieces.get(i);
            for (long at = 0; at < piece.byteSize(); at += FrameCodec.MAX_PAYLOAD_BYTES) {
                int bytes = (int) Math.min(FrameCodec.MAX_PAYLOAD_BYTES, piece.byteSize() - at);
                ByteBuffer head = FrameCodec.encodePayloadHead(header.group(), bytes);
                if (before != null) {
                    head = ByteBuffer.allocate(before.remaining() + head.remaining())
                            .put(before)
                            .put(head)
                            .flip();
                    before = null;
                }
                boolean last = i == pieces.size() - 1 && at + bytes == piece.byteSize();
                enqueue(new Item(head, piece.asSlice(at, bytes).asByteBuffer(), flush, last));
            }
        }
    }

    private void enqueue(Item item) {
        if (!broken) {
            queue.add(item);
        }
    }

    /** Writes what the socket takes now; the rest waits for the I/O thread. Called with the write lock held. */
    private void write() {
        try {
            while (!queue.isEmpty()) {
                Item item = queue.peek();
                if (item.payload == null) {
                    channel.write(item.head);
                } else {
                    channel.write(new ByteBuffer[] {item.head, item.payload});
                }
                if (!item.isWritten()) {
                    wantWrite(true);
                    return;
                }
                finish(queue.remove());
            }
            wantWrite(false);
        } catch (IOException _) {
            // The reader meets the end of the connection, too, but only after what the peer said before it.
            breakOff();
        }
    }

    private void finish(Item item) {
        if (item.lastOfMessage) {
            item.flush.done(peer);
        }
    }

    private void breakOff() {
        broken = true;
        queue.forEach(this::finish);
        queue.clear();
        wantWrite(false);
    }

    private void wantWrite(boolean wanted) {
        try {
            int before = wanted ? key.interestOpsOr(SelectionKey.OP_WRITE) : key.interestOpsAnd(~SelectionKey.OP_WRITE);
            if (wanted && (before & SelectionKey.OP_WRITE) == 0) {
                key.selector().wakeup();
            }
        } catch (CancelledKeyException _) {
            // The reader has just met the end of the connection; it tells the mesh.
        }
    }

    /** Called on the I/O thread when the socket has room. */
    void onWritable() {
        synchronized (writeLock) {
            write();
        }
    }

    /** Keeps a frame that is partly written whole, from a copy; drops all other payload. */
    void dropPayload() {
        synchronized (writeLock) {
            Iterator<Item> items = queue.iterator();
            while (items.hasNext()) {
                Item item = items.next();
                if (item.payload == null) {
                    continue;
                }
                if (item.isStarted()) {
                    item.ownPayload();
                } else {
                    items.remove();
                    finish(item);
                }
            }
        }
    }

    /**
     * Called on the I/O thread when there is something to read.
     *
     * @return false at the end of the connection
     */
    boolean onReadable() throws IOException {
        for (int i = 0; i < READS_PER_TURN; i++) {
            int got = channel.read(in);
            if (got < 0) {
                return false;
            }
            boolean drained = in.hasRemaining();
            in.flip();
            parse();
            in.compact();
            if (drained) {
                return true;
            }
        }
        return true;
    }

    private void parse() {
        while (in.hasRemaining()) {
            if (payloadBytesLeft > 0) {
                int bytes = (int) Math.min(payloadBytesLeft, in.remaining());
                mesh.payload(peer, payloadGroup, inMemory.asSlice(in.position(), bytes));
                in.position(in.position() + bytes);
                payloadBytesLeft -= bytes;
            } else if (!parseFrame()) {
                return;
            }
        }
    }

    /** Takes one frame, or the head of a payload frame, if it is there as a whole. */
    private boolean parseFrame() {
        int start = in.position();
        int available = in.remaining() - FrameCodec.LENGTH_BYTES;
        if (available < 1) {
            return false;
        }
        int length = in.getInt(start);
        byte type = in.get(start + FrameCodec.LENGTH_BYTES);
        boolean isPayload = type == FrameCodec.PAYLOAD;
        if (length < 1 || length > FrameCodec.MAX_CONTROL_BYTES + (isPayload ? FrameCodec.MAX_PAYLOAD_BYTES : 0)) {
            throw new IllegalStateException("not a frame: length=" + length + " type=" + type);
        }
        if (isPayload) {
            int nameAt = start + FrameCodec.LENGTH_BYTES + 1;
            if (available < 3 || available < 3 + Short.toUnsignedInt(in.getShort(nameAt))) {
                return false;
            }
            in.position(nameAt);
            payloadGroup = FrameCodec.text(in);
            payloadBytesLeft = length - (in.position() - start - FrameCodec.LENGTH_BYTES);
            return true;
        }
        if (available < length) {
            return false;
        }
        int end = start + FrameCodec.LENGTH_BYTES + length;
        Frame frame = FrameCodec.decode(type, in.slice(start + FrameCodec.LENGTH_BYTES + 1, length - 1));
        in.position(end);
        mesh.deliver(peer, frame);
        return true;
    }

    void close() {
        synchronized (writeLock) {
            breakOff();
        }
        Sockets.closeQuietly(channel);
    }
}
