package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The rendezvous store of one job: keys that are written once, and read by whoever waits for them. Serves only clients
 * that know the job id and the secret; others get a reason and are cut off, and cannot disturb the job.
 */
public final class StoreServer implements AutoCloseable {
    static final String PURPOSE = "store";
    static final byte SET = 1;
    static final byte GET = 2;
    static final byte DONE = 1;
    static final byte ABSENT = 2;
    static final byte TAKEN = 3;
    static final int MAX_KEY_BYTES = 4096;
    static final int MAX_VALUE_BYTES = 1024 * 1024;

    private static final int BACKLOG = 512;

    private final ServerSocket listener;
    private final Hello hello;
    private final Map<String, byte[]> values = new HashMap<>();
    private final Set<Socket> clients = ConcurrentHashMap.newKeySet();
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Thread acceptor;
    private volatile boolean closed;

    private StoreServer(ServerSocket listener, Hello hello) {
        this.listener = listener;
        this.hello = hello;
        this.acceptor = Thread.ofPlatform().daemon().name("kcp-store").unstarted(this::accept);
    }

    /**
     * Starts a store.
     *
     * @param host address or name to listen at
     * @param port port to listen at, or 0 for any free one
     * @throws KcpException RENDEZVOUS if it cannot listen there; the text names host and port
     */
    public static StoreServer start(String host, int port, String jobId, String secret) {
        ServerSocket listener = null;
        try {
            listener = new ServerSocket();
            listener.setReuseAddress(true);
            listener.bind(new InetSocketAddress(host, port), BACKLOG);
        } catch (IOException e) {
            Sockets.closeQuietly(listener);
            throw new KcpException(
                    Code.RENDEZVOUS,
                    "the store cannot listen (" + Sockets.reason(e) + "): host=" + host + " port=" + port,
                    e);
        }
        StoreServer server = new StoreServer(listener, new Hello(PURPOSE, jobId, secret, Hello.NO_RANK));
        server.acceptor.start();
        return server;
    }

    /** The port it listens at. */
    public int port() {
        return listener.getLocalPort();
    }

    /** Whether a client of the job has left something here. */
    public boolean wasUsed() {
        lock.lock();
        try {
            return !values.isEmpty();
        } finally {
            lock.unlock();
        }
    }

    private void accept() {
        while (!closed) {
            try {
                Socket client = listener.accept();
                clients.add(client);
                Thread.ofVirtual().name("kcp-store-client").start(() -> serve(client));
            } catch (IOException e) {
                // A client that vanished while it was accepted is no reason to stop; a closed listener ends the loop.
                if (!closed) {
                    Sockets.pauseAfterFailedAccept();
                }
            }
        }
    }

    private void serve(Socket client) {
        try (client) {
            client.setTcpNoDelay(true);
            client.setSoTimeout(Hello.HANDSHAKE_MILLIS);
            DataInputStream in = new DataInputStream(client.getInputStream());
            DataOutputStream out = new DataOutputStream(client.getOutputStream());
            hello.answer(in, out);
            client.setSoTimeout(0);
            while (!closed) {
                request(in, out);
            }
        } catch (IOException _) {
            // The client left, or was a stranger: nothing to tell, the job goes on without this connection.
        } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
        } finally {
            clients.remove(client);
        }
    }

    private void request(DataInputStream in, DataOutputStream out) throws IOException, InterruptedException {
        byte operation = in.readByte();
        String key = new String(read(in, MAX_KEY_BYTES), StandardCharsets.UTF_8);
        switch (operation) {
            case SET -> out.writeByte(set(key, read(in, MAX_VALUE_BYTES)));
            case GET -> {
                byte[] value = get(key, in.readLong());
                if (value == null) {
                    out.writeByte(ABSENT);
                } else {
                    byte[] answer = new byte[5 + value.length];
                    ByteBuffer.wrap(answer).put(DONE).putInt(value.length).put(value);
                    out.write(answer);
                }
            }
            default -> throw new IOException("unknown request: operation=" + operation);
        }
        out.flush();
    }

    private static byte[] read(DataInputStream in, int most) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > most) {
            throw new IOException("field too long: bytes=" + length + " most=" + most);
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    private byte set(String key, byte[] value) {
        lock.lock();
        try {
            byte[] before = values.putIfAbsent(key, value);
            changed.signalAll();
            return before == null || Arrays.equals(before, value) ? DONE : TAKEN;
        } finally {
            lock.unlock();
        }
    }

    private byte[] get(String key, long waitMillis) throws InterruptedException {
        long nanos = TimeUnit.MILLISECONDS.toNanos(Math.clamp(waitMillis, 0L, StoreClient.MAX_WAIT_MILLIS));
        lock.lock();
        try {
            while (!values.containsKey(key) && nanos > 0 && !closed) {
                nanos = changed.awaitNanos(nanos);
            }
            return values.get(key);
        } finally {
            lock.unlock();
        }
    }

    /** Stops listening and cuts off all clients. */
    @Override
    public void close() {
        closed = true;
        Sockets.closeQuietly(listener);
        clients.forEach(Sockets::closeQuietly);
        lock.lock();
        try {
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        Sockets.joinQuietly(acceptor);
    }
}
