package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Connects one rank to all others: it calls the lower ranks and is called by the higher. Callers of another job, or of
 * none, are told so and cut off; they cost one thread for some seconds and nothing else.
 */
final class TcpPeers implements AutoCloseable {
    private static final int BACKLOG = 512;

    private final RankInfo me;
    private final Hello hello;
    private final String communicator;
    private final Deadline until;
    private final ServerSocketChannel listener;
    private final HostAndPort listening;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Map<Integer, SocketChannel> connected = new TreeMap<>();
    private final Set<SocketChannel> strangers = ConcurrentHashMap.newKeySet();
    private final Thread acceptor;
    private boolean handedOver;
    private volatile boolean closed;

    private TcpPeers(RankInfo me, String communicator, ServerSocketChannel listener, Deadline until)
            throws IOException {
        this.me = me;
        this.communicator = communicator;
        this.hello = new Hello("communicator " + communicator, me.jobId(), me.secret(), me.rank());
        this.until = until;
        this.listener = listener;
        InetSocketAddress local = (InetSocketAddress) listener.getLocalAddress();
        this.listening = new HostAndPort(local.getAddress().getHostAddress(), local.getPort());
        this.acceptor =
                Thread.ofPlatform().daemon().name("kcp-accept-" + me.rank()).unstarted(this::accept);
    }

    /** Starts to listen, at any free port of the address. */
    static TcpPeers listen(RankInfo me, String communicator, InetAddress at, Deadline until) throws IOException {
        ServerSocketChannel listener = ServerSocketChannel.open();
        try {
            listener.bind(new InetSocketAddress(at, 0), BACKLOG);
            TcpPeers peers = new TcpPeers(me, communicator, listener, until);
            peers.acceptor.start();
            return peers;
        } catch (IOException e) {
            Sockets.closeQuietly(listener);
            throw new KcpException(
                    Code.RENDEZVOUS,
                    "rank " + me.rank() + " cannot listen (" + Sockets.reason(e) + "): host=" + at.getHostAddress()
                            + " port=0",
                    e);
        }
    }

    HostAndPort listening() {
        return listening;
    }

    private void accept() {
        while (!closed) {
            try {
                SocketChannel caller = listener.accept();
                strangers.add(caller);
                Thread.ofVirtual().name("kcp-greet").start(() -> greet(caller));
            } catch (IOException _) {
                // Closed by the owner, or a caller that vanished at once; then look whether to go on.
                if (!listener.isOpen()) {
                    return;
                }
                Sockets.pauseAfterFailedAccept();
            }
        }
    }

    private void greet(SocketChannel caller) {
        try {
            Socket socket = caller.socket();
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(Hello.HANDSHAKE_MILLIS);
            Hello other = hello.answer(socket.getInputStream(), socket.getOutputStream());
            strangers.remove(caller);
            if (other.rank() <= me.rank() || other.rank() >= me.worldSize() || !keep(other.rank(), caller)) {
                Sockets.closeQuietly(caller);
            }
        } catch (IOException _) {
            // Not one of ours. The job goes on without it.
            strangers.remove(caller);
            Sockets.closeQuietly(caller);
        }
    }

    private boolean keep(int rank, SocketChannel channel) {
        lock.lock();
        try {
            boolean kept = !closed && connected.putIfAbsent(rank, channel) == null;
            changed.signalAll();
            return kept;
        } finally {
            lock.unlock();
        }
    }

    /** Connects to all; a channel per peer, by rank, still owned here until {@link #handOver}. */
    Map<Integer, SocketChannel> connect(List<HostAndPort> addresses) {
        for (int rank = 0; rank < me.rank(); rank++) {
            keep(rank, call(rank, addresses.get(rank)));
        }
        lock.lock();
        try {
            while (connected.size() < me.worldSize() - 1) {
                if (until.expired()) {
                    throw Rendezvous.missing(unconnected(), "connected", communicator, me, until);
                }
                changed.awaitNanos(Math.min(until.remainingNanos(), TimeUnit.SECONDS.toNanos(1)));
            }
            return Map.copyOf(connected);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KcpException(Code.RENDEZVOUS, "interrupted while ranks connected: rank=" + me.rank(), e);
        } finally {
            lock.unlock();
        }
    }

    private List<Integer> unconnected() {
        List<Integer> missing = new ArrayList<>();
        for (int rank = 0; rank < me.worldSize(); rank++) {
            if (rank != me.rank() && !connected.containsKey(rank)) {
                missing.add(rank);
            }
        }
        return missing;
    }

    private SocketChannel call(int rank, HostAndPort address) {
        SocketChannel channel = null;
        try {
            channel = SocketChannel.open();
            Socket socket = channel.socket();
            socket.connect(address.resolve(), until.remainingMillis(Integer.MAX_VALUE));
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(until.remainingMillis(Integer.MAX_VALUE));
            Hello other = hello.greet(socket.getInputStream(), socket.getOutputStream());
            if (other.rank() != rank) {
                throw new IOException("it is rank " + other.rank());
            }
            return channel;
        } catch (IOException e) {
            Sockets.closeQuietly(channel);
            throw new KcpException(
                    Code.RENDEZVOUS,
                    "rank " + rank + " does not answer rank " + me.rank() + " (" + Sockets.reason(e) + "): address="
                            + address + " communicator=" + communicator,
                    e);
        }
    }

    /** From now on the channels are another's to close. */
    void handOver() {
        lock.lock();
        try {
            handedOver = true;
        } finally {
            lock.unlock();
        }
    }

    /** Stops to listen; closes the channels, too, unless they were handed over. */
    @Override
    public void close() {
        lock.lock();
        try {
            closed = true;
            Sockets.closeQuietly(listener);
            if (!handedOver) {
                connected.values().forEach(Sockets::closeQuietly);
            }
        } finally {
            lock.unlock();
        }
        strangers.forEach(Sockets::closeQuietly);
        Sockets.joinQuietly(acceptor);
    }
}
