package dev.kcp.launcher;

import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.IntSupplier;

/**
 * A TCP port for a rank 0 that listens itself. It cannot be held for that rank: to a program that does not ask for
 * SO_REUSEADDR a held port is taken. So it is drawn from outside the range from which the system gives ports to connections
 * and to listeners that leave the choice to it, and its UDP twin is held while the job runs, by which the launchers of jobs
 * on one machine keep out of each other's way.
 */
final class MasterPort implements AutoCloseable {
    private static final Path SYSTEM_RANGE = Path.of("/proc/sys/net/ipv4/ip_local_port_range");
    private static final int WANTED_PORTS = 12_000;
    private static final int FEWEST_PORTS = 1_000;
    private static final int FIRST_PORT = 10_000;
    private static final int LAST_PORT = 65_535;
    private static final int TRIES = 100;

    private final int number;
    private final DatagramSocket claim;

    private MasterPort(int number, DatagramSocket claim) {
        this.number = number;
        this.claim = claim;
    }

    /** Ports from {@code first} to {@code last}. */
    record Range(int first, int last) {
        int count() {
            return last - first + 1;
        }
    }

    /** @throws UncheckedIOException if no port is free */
    static MasterPort claim() {
        Optional<Range> range = outside(systemRange());
        if (range.isPresent()) {
            int first = range.get().first();
            int count = range.get().count();
            Optional<MasterPort> claimed =
                    claim(() -> first + ThreadLocalRandom.current().nextInt(count));
            if (claimed.isPresent()) {
                return claimed.get();
            }
        }
        // The system has no such ports: one of those that it gives out, which somebody else may then get.
        return claim(MasterPort::given)
                .orElseThrow(() -> new UncheckedIOException(
                        new IOException((FileFailures.isOutOfFiles() ? FileFailures.OUT_OF_FILES : "no free port")
                                + ": host=" + JobEnvironment.LOOPBACK + " tries=" + TRIES + " range=" + range)));
    }

    /** Tries ports until one is free that no other job has claimed; empty after a hundred. */
    static Optional<MasterPort> claim(IntSupplier candidates) {
        for (int i = 0; i < TRIES; i++) {
            int number = candidates.getAsInt();
            try {
                DatagramSocket claim = new DatagramSocket(
                        new InetSocketAddress(InetAddress.getByName(JobEnvironment.LOOPBACK), number));
                if (isFree(number)) {
                    return Optional.of(new MasterPort(number, claim));
                }
                claim.close();
            } catch (IOException taken) {
                continue;
            }
        }
        return Optional.empty();
    }

    /** Whether a rank could listen there, at all of this machine's addresses. */
    private static boolean isFree(int number) {
        try (ServerSocket socket = new ServerSocket()) {
            socket.setReuseAddress(false);
            socket.bind(new InetSocketAddress(number), 1);
            return true;
        } catch (IOException taken) {
            return false;
        }
    }

    private static int given() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(JobEnvironment.LOOPBACK))) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException("no free port: host=" + JobEnvironment.LOOPBACK, e);
        }
    }

    /** The larger room beside the ports that the system gives out, nearest to them; empty where there is hardly any. */
    static Optional<Range> outside(Optional<Range> system) {
        if (system.isEmpty()) {
            return Optional.empty();
        }
        Range below = new Range(
                Math.max(FIRST_PORT, system.get().first() - WANTED_PORTS),
                system.get().first() - 1);
        Range above = new Range(
                system.get().last() + 1, Math.min(LAST_PORT, system.get().last() + WANTED_PORTS));
        Range larger = below.count() >= above.count() ? below : above;
        return larger.count() >= FEWEST_PORTS ? Optional.of(larger) : Optional.empty();
    }

    static Optional<Range> systemRange() {
        try {
            // By lines, which reads at once: the kernel gives this file to the first read only.
            String[] ends = Files.readAllLines(SYSTEM_RANGE).getFirst().strip().split("\\s+");
            return Optional.of(new Range(Integer.parseInt(ends[0]), Integer.parseInt(ends[1])));
        } catch (IOException | RuntimeException unknown) {
            return Optional.empty();
        }
    }

    int number() {
        return number;
    }

    /** Gives the claim up. */
    @Override
    public void close() {
        claim.close();
    }
}
