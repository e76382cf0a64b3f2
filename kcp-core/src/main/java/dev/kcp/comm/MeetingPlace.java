package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * The store at which the ranks of one communicator meet, as one rank sees it: the launcher's, or one that rank 0 hosts
 * while ranks join. Closing it ends what this rank hosts.
 */
final class MeetingPlace implements AutoCloseable {
    private static final String LOOPBACK = "127.0.0.1";
    private static final String ANY = "0.0.0.0";
    private static final long FIRST_PAUSE_MILLIS = 10;
    private static final long LONGEST_PAUSE_MILLIS = 200;
    /** A file's store listens before the file is there, so one that does not answer soon is an earlier job's. */
    private static final Duration STALE_AFTER = Duration.ofSeconds(2);

    private final RankInfo me;
    private final StoreServer server;
    private final RendezvousFile.Entry written;
    private final RankInfo resolved;
    private final StoreClient client;

    private MeetingPlace(
            RankInfo me, StoreServer server, RendezvousFile.Entry written, RankInfo resolved, StoreClient client) {
        this.me = me;
        this.server = server;
        this.written = written;
        this.resolved = resolved;
        this.client = client;
    }

    /**
     * Opens the store where this rank hosts it, and connects to it.
     *
     * @param communicator which of the job's communicators is to be joined
     * @throws KcpException RENDEZVOUS if there is no way to it before the deadline
     */
    static MeetingPlace open(RankInfo me, String communicator, Deadline until) {
        if (me.store() == null && me.file() != null) {
            return me.rank() == 0 ? hostByFile(me, communicator, until) : findByFile(me, communicator, until);
        }
        StoreServer server = me.store() == null && me.rank() == 0
                ? StoreServer.start(me.masterHost(), me.masterPort(), me.jobId(), me.secret())
                : null;
        try {
            StoreClient client = StoreClient.connect(me.meetingPlace(), me.jobId(), me.secret(), until);
            return new MeetingPlace(me, server, null, me, client);
        } catch (RuntimeException e) {
            close(server);
            throw e;
        }
    }

    /** This rank with the store that was found. */
    RankInfo me() {
        return resolved;
    }

    StoreClient store() {
        return client;
    }

    private static MeetingPlace hostByFile(RankInfo me, String communicator, Deadline until) {
        RendezvousFile file = me.file();
        String jobId = me.jobId().isEmpty() ? random(8) : me.jobId();
        String secret = me.secret().isEmpty() ? random(16) : me.secret();
        StoreServer server = StoreServer.start(file.oneHost() ? LOOPBACK : ANY, me.masterPort(), jobId, secret);
        RendezvousFile.Entry entry = null;
        try {
            String host = file.oneHost() ? LOOPBACK : me.masterHost() != null ? me.masterHost() : ownAddress();
            entry = new RendezvousFile.Entry(communicator, new HostAndPort(host, server.port()), jobId, secret);
            StoreClient client = StoreClient.connect(entry.store(), jobId, secret, until);
            file.write(entry);
            return new MeetingPlace(me, server, entry, me.at(entry.store(), jobId, secret), client);
        } catch (RuntimeException e) {
            close(server);
            throw e;
        }
    }

    /** Polls for the file, past one that an earlier job left, whose store answers no more or not to its words. */
    private static MeetingPlace findByFile(RankInfo me, String communicator, Deadline until) {
        long pauseMillis = FIRST_PAUSE_MILLIS;
        KcpException last = null;
        while (true) {
            Optional<RendezvousFile.Entry> found =
                    me.file().read().filter(entry -> entry.communicator().equals(communicator));
            if (found.isPresent()) {
                RendezvousFile.Entry entry = found.get();
                try {
                    StoreClient client = StoreClient.connect(entry.store(), entry.jobId(), entry.secret(), soon(until));
                    return new MeetingPlace(
                            me, null, null, me.at(entry.store(), entry.jobId(), entry.secret()), client);
                } catch (KcpException stale) {
                    last = stale;
                }
            }
            if (until.remainingNanos() < TimeUnit.MILLISECONDS.toNanos(pauseMillis)) {
                throw new KcpException(
                        Code.RENDEZVOUS,
                        "rank 0 did not say in time where to meet"
                                + (last == null ? "" : " (" + last.getMessage() + ")") + ": rank=" + me.rank()
                                + " file=" + me.file() + " communicator=" + communicator + " deadlineMillis="
                                + until.limit().toMillis(),
                        last);
            }
            pause(pauseMillis);
            pauseMillis = Math.min(2 * pauseMillis, LONGEST_PAUSE_MILLIS);
        }
    }

    private static Deadline soon(Deadline until) {
        Duration left = Duration.ofNanos(Math.max(1, until.remainingNanos()));
        return Deadline.in(left.compareTo(STALE_AFTER) < 0 ? left : STALE_AFTER);
    }

    /** The address from which this host reaches others; nothing is sent to find it. */
    private static String ownAddress() {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress("198.51.100.1", 9));
            InetAddress local = socket.getLocalAddress();
            return local.isAnyLocalAddress() ? LOOPBACK : local.getHostAddress();
        } catch (IOException | java.io.UncheckedIOException noRoute) {
            return LOOPBACK;
        }
    }

    private static String random(int bytes) {
        byte[] drawn = new byte[bytes];
        new SecureRandom().nextBytes(drawn);
        return HexFormat.of().formatHex(drawn);
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KcpException(Code.RENDEZVOUS, "interrupted while waiting for the rendezvous file", e);
        }
    }

    private static void close(StoreServer server) {
        if (server != null) {
            server.close();
        }
    }

    @Override
    public void close() {
        client.close();
        if (written != null) {
            me.file().remove(written);
        }
        close(server);
    }
}
