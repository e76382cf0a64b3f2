package dev.kcp.nccl;

import dev.kcp.comm.HostAndPort;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * What NCCL itself knows of the processes that use it: since 2.24 one thread in each keeps in touch with the others and
 * answers in text on a local port. Asked when a job hangs, since it names processes that do not answer.
 */
final class NcclRas {
    /** How long an answer is waited for; it comes within milliseconds unless processes have just stopped answering. */
    static final Duration PATIENCE = Duration.ofSeconds(2);

    private static final String ADDRESS_VARIABLE = "NCCL_RAS_ADDR";
    private static final String ENABLE_VARIABLE = "NCCL_RAS_ENABLE";
    private static final String LOOPBACK = "127.0.0.1";
    private static final HostAndPort DEFAULT_ADDRESS = new HostAndPort("localhost", 28028);
    /** A process that listens and says nothing is one of those that hang; another one may take the next connection. */
    private static final long GREETING_MILLIS = 150;

    private static final long NANOS_PER_MILLI = 1_000_000;
    private static final int LONGEST_ANSWER_BYTES = 1 << 18;

    private NcclRas() {}

    /**
     * Has NCCL answer for this process alone, where the user has not said where it answers: at its usual address all
     * processes of the host listen, those that hang and those of other jobs too. To be called before NCCL is first used.
     */
    static void listenApart() {
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName(LOOPBACK))) {
            NativeEnvironment.setIfAbsent(ADDRESS_VARIABLE, new HostAndPort(LOOPBACK, free.getLocalPort()).toString());
        } catch (IOException noPort) {
            // Then NCCL listens where it usually does.
        }
    }

    /** Where this process answers; nowhere where that is switched off, or what the user has set is no address. */
    static Optional<HostAndPort> address() {
        return address(NativeEnvironment.get(ENABLE_VARIABLE), NativeEnvironment.get(ADDRESS_VARIABLE));
    }

    /** @param enabled value of a variable as NCCL reads it, or null; so too {@code address} */
    static Optional<HostAndPort> address(String enabled, String address) {
        if ("0".equals(enabled)) {
            return Optional.empty();
        }
        if (address == null || address.isBlank()) {
            return Optional.of(DEFAULT_ADDRESS);
        }
        try {
            return Optional.of(HostAndPort.parse(address.strip()));
        } catch (IllegalArgumentException noAddress) {
            return Optional.empty();
        }
    }

    /**
     * Asks for the state of the job, on a thread of its own.
     *
     * @return the answer's lines without blank ones; empty if none came in time
     */
    static List<String> status(HostAndPort address, Duration patience) {
        long end = System.nanoTime() + patience.toNanos();
        FutureTask<List<String>> task = new FutureTask<>(() -> ask(address, end));
        Thread.ofPlatform().daemon().name("kcp-nccl-ras").start(task);
        try {
            return task.get(patience.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException | TimeoutException unanswered) {
            return List.of();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return List.of();
        }
    }

    private static List<String> ask(HostAndPort address, long end) throws IOException {
        InetAddress[] hosts = InetAddress.getAllByName(address.host());
        boolean anyListens = true;
        while (anyListens && System.nanoTime() < end) {
            anyListens = false;
            for (InetAddress host : hosts) {
                try (Socket socket = new Socket()) {
                    return ask(socket, new InetSocketAddress(host, address.port()), end);
                } catch (ConnectException nobody) {
                    // The name may have another address.
                } catch (SocketTimeoutException silent) {
                    anyListens = true;
                }
            }
        }
        return List.of();
    }

    private static List<String> ask(Socket socket, InetSocketAddress address, long end) throws IOException {
        long greetingEnd = Math.min(end, System.nanoTime() + GREETING_MILLIS * NANOS_PER_MILLI);
        socket.connect(address, millisUntil(greetingEnd));
        say(socket, "CLIENT PROTOCOL 2");
        if (!line(socket, greetingEnd).startsWith("SERVER PROTOCOL ")) {
            return List.of();
        }
        // How many seconds it may wait for other processes; without it five.
        say(socket, "TIMEOUT 1");
        if (!line(socket, greetingEnd).equals("OK")) {
            return List.of();
        }
        say(socket, "STATUS");
        return read(socket, end, false)
                .lines()
                .map(String::stripTrailing)
                .filter(line -> !line.isEmpty())
                .toList();
    }

    private static void say(Socket socket, String line) throws IOException {
        socket.getOutputStream().write((line + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    /** One line: the other side says no more before it is asked. */
    private static String line(Socket socket, long end) throws IOException {
        return read(socket, end, true).strip();
    }

    private static String read(Socket socket, long end, boolean onlyLine) throws IOException {
        ByteArrayOutputStream answer = new ByteArrayOutputStream();
        byte[] some = new byte[4096];
        while (answer.size() < LONGEST_ANSWER_BYTES) {
            socket.setSoTimeout(millisUntil(end));
            int bytes = socket.getInputStream().read(some);
            if (bytes < 0) {
                break;
            }
            answer.write(some, 0, bytes);
            if (onlyLine && some[bytes - 1] == '\n') {
                break;
            }
        }
        return answer.toString(StandardCharsets.UTF_8);
    }

    private static int millisUntil(long end) throws SocketTimeoutException {
        long millis = (end - System.nanoTime()) / NANOS_PER_MILLI;
        if (millis <= 0) {
            throw new SocketTimeoutException("no answer in time");
        }
        return (int) millis;
    }
}
