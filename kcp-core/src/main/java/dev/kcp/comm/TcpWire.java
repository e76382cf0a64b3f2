package dev.kcp.comm;

import dev.kcp.KcpException.Code;
import dev.kcp.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.StandardSocketOptions;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.Map;

/** Carries frames between processes: one connection per pair of ranks, and one thread per rank that serves them all. */
final class TcpWire implements Wire {
    private final Mesh mesh;
    private final TcpLink[] links;
    private final Selector selector;
    private final Arena arena = Arena.ofShared();
    private final Thread thread;
    private volatile boolean closed;

    /** @param channels a connected, greeted channel for each peer, by rank; owned by the wire from now on */
    TcpWire(Mesh mesh, Map<Integer, SocketChannel> channels) throws IOException {
        this.mesh = mesh;
        this.links = new TcpLink[mesh.size()];
        this.selector = Selector.open();
        try {
            for (Map.Entry<Integer, SocketChannel> entry : channels.entrySet()) {
                SocketChannel channel = entry.getValue();
                channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                channel.configureBlocking(false);
                SelectionKey key = channel.register(selector, SelectionKey.OP_READ);
                TcpLink link = new TcpLink(entry.getKey(), channel, key, mesh, arena);
                key.attach(link);
                links[entry.getKey()] = link;
            }
        } catch (IOException e) {
            selector.close();
            arena.close();
            throw e;
        }
        this.thread =
                Thread.ofPlatform().daemon().name("kcp-tcp-" + mesh.rank()).unstarted(this::serve);
    }

    /** Starts to read; the mesh knows this wire by then. */
    void start() {
        thread.start();
    }

    private void serve() {
        try {
            while (!closed) {
                selector.select(this::serve);
            }
        } catch (Throwable e) {
            mesh.fail(new Failure(
                    Code.RANK_FAILED, mesh.rank(), -1, "rank " + mesh.rank() + " cannot go on: " + Words.of(e)));
        } finally {
            for (TcpLink link : links) {
                if (link != null) {
                    link.close();
                }
            }
            Sockets.closeQuietly(selector);
            arena.close();
        }
    }

    private void serve(SelectionKey key) {
        TcpLink link = (TcpLink) key.attachment();
        try {
            if (key.isWritable()) {
                link.onWritable();
            }
            if (key.isReadable() && !link.onReadable()) {
                lost(key, link, "connection closed");
            }
        } catch (IOException _) {
            lost(key, link, "connection closed");
        } catch (RuntimeException e) {
            lost(key, link, "it sent what cannot be read: " + e.getMessage());
        }
    }

    private void lost(SelectionKey key, TcpLink link, String how) {
        key.cancel();
        link.close();
        mesh.lost(link.peer(), how);
    }

    @Override
    public void send(int peer, Frame.Header header, List<MemorySegment> pieces, Flush flush) {
        links[peer].send(header, pieces, flush);
    }

    @Override
    public void send(int peer, Frame frame) {
        links[peer].send(frame);
    }

    @Override
    public void dropPayload() {
        for (TcpLink link : links) {
            if (link != null) {
                link.dropPayload();
            }
        }
    }

    @Override
    public void close() {
        closed = true;
        selector.wakeup();
        Sockets.joinQuietly(thread);
    }
}
