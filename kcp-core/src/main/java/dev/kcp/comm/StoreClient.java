package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** A connection to a job's {@link StoreServer}; used by one thread at a time. */
final class StoreClient implements AutoCloseable {
    /** Most that the server waits for a key in one request; longer waits are several requests. */
    static final long MAX_WAIT_MILLIS = 2000;

    /** How long an answer may take beyond the wait that was asked for. */
    private static final int ANSWER_MILLIS = 10_000;

    private static final int CONNECT_MILLIS = 5000;
    private static final long FIRST_PAUSE_MILLIS = 5;
    private static final long LONGEST_PAUSE_MILLIS = 200;

    private final HostAndPort address;
    private final Socket socket;
    private final DataInputStream in;
    private final DataOutputStream out;

    private StoreClient(HostAndPort address, Socket socket) throws IOException {
        this.address = address;
        this.socket = socket;
        this.in = new DataInputStream(socket.getInputStream());
        this.out = new DataOutputStream(socket.getOutputStream());
    }

    /**
     * Connects; where nobody listens yet it tries again until the deadline.
     *
     * @throws KcpException RENDEZVOUS if the store refuses this process, or the deadline passes
     */
    static StoreClient connect(HostAndPort address, String jobId, String secret, Duration deadline) {
        return connect(address, jobId, secret, Deadline.in(Deadline.check(deadline)));
    }

    static StoreClient connect(HostAndPort address, String jobId, String secret, Deadline until) {
        Hello hello = new Hello(StoreServer.PURPOSE, jobId, secret, Hello.NO_RANK);
        long pauseMillis = FIRST_PAUSE_MILLIS;
        while (true) {
            Socket socket = new Socket();
            try {
                socket.connect(address.resolve(), until.remainingMillis(CONNECT_MILLIS));
                socket.setTcpNoDelay(true);
                socket.setSoTimeout(until.remainingMillis(Hello.HANDSHAKE_MILLIS));
                StoreClient client = new StoreClient(address, socket);
                hello.greet(client.in, client.out);
                return client;
            } catch (Hello.RefusedException e) {
                Sockets.closeQuietly(socket);
                throw new KcpException(
                        Code.RENDEZVOUS,
                        "the store refused this process (" + e.getMessage() + "): store=" + address,
                        e);
            } catch (IOException e) {
                Sockets.closeQuietly(socket);
                if (until.remainingNanos() < TimeUnit.MILLISECONDS.toNanos(pauseMillis)) {
                    throw new KcpException(
                            Code.RENDEZVOUS,
                            "no store answered (" + Sockets.reason(e) + "): store=" + address + " deadlineMillis="
                                    + until.limit().toMillis(),
                            e);
                }
            }
            pause(pauseMillis);
            pauseMillis = Math.min(2 * pauseMillis, LONGEST_PAUSE_MILLIS);
        }
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KcpException(Code.RENDEZVOUS, "interrupted while waiting for the store", e);
        }
    }

    /** This host's address as the store sees it: one that other ranks can reach, too. */
    InetAddress localAddress() {
        return socket.getLocalAddress();
    }

    /**
     * Writes a key. Writing the same value again is harmless.
     *
     * @return false if the key has another value already
     * @throws KcpException RENDEZVOUS if the store is lost
     */
    boolean set(String key, byte[] value) {
        if (value.length > StoreServer.MAX_VALUE_BYTES) {
            throw new IllegalArgumentException("value too long: key=" + key + " bytes=" + value.length);
        }
        try {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            DataOutputStream fields = begin(request, StoreServer.SET, key);
            fields.writeInt(value.length);
            fields.write(value);
            return ask(request, ANSWER_MILLIS) == StoreServer.DONE;
        } catch (IOException e) {
            throw lost(e);
        }
    }

    /**
     * Reads a key, once it is written.
     *
     * @return empty if it was not written before the deadline; a deadline of zero only looks
     * @throws KcpException RENDEZVOUS if the store is lost
     */
    Optional<byte[]> get(String key, Duration deadline) {
        return get(key, Deadline.in(deadline));
    }

    Optional<byte[]> get(String key, Deadline until) {
        try {
            while (true) {
                long waitMillis =
                        Math.clamp(TimeUnit.NANOSECONDS.toMillis(until.remainingNanos()), 0L, MAX_WAIT_MILLIS);
                ByteArrayOutputStream request = new ByteArrayOutputStream();
                begin(request, StoreServer.GET, key).writeLong(waitMillis);
                if (ask(request, ANSWER_MILLIS + (int) waitMillis) == StoreServer.DONE) {
                    int length = in.readInt();
                    if (length < 0 || length > StoreServer.MAX_VALUE_BYTES) {
                        throw new IOException("value too long: bytes=" + length);
                    }
                    byte[] value = new byte[length];
                    in.readFully(value);
                    return Optional.of(value);
                }
                if (until.expired()) {
                    return Optional.empty();
                }
            }
        } catch (IOException e) {
            throw lost(e);
        }
    }

    private static DataOutputStream begin(ByteArrayOutputStream request, byte operation, String key)
            throws IOException {
        byte[] name = key.getBytes(StandardCharsets.UTF_8);
        if (name.length > StoreServer.MAX_KEY_BYTES) {
            throw new IllegalArgumentException("key too long: bytes=" + name.length);
        }
        DataOutputStream fields = new DataOutputStream(request);
        fields.writeByte(operation);
        fields.writeInt(name.length);
        fields.write(name);
        return fields;
    }

    private byte ask(ByteArrayOutputStream request, int answerMillis) throws IOException {
        socket.setSoTimeout(answerMillis);
        request.writeTo(out);
        out.flush();
        return in.readByte();
    }

    private KcpException lost(IOException e) {
        return new KcpException(Code.RENDEZVOUS, "the store is lost (" + Sockets.reason(e) + "): store=" + address, e);
    }

    @Override
    public void close() {
        Sockets.closeQuietly(socket);
    }
}
