package dev.kcp.comm;

import java.net.InetSocketAddress;
import java.util.Objects;

/**
 * A place to connect to, kept as text until it is used, so that a name is resolved where it is needed.
 *
 * @param host name or address, IPv6 without brackets
 * @param port from 1 to 65535
 */
public record HostAndPort(String host, int port) {
    /** @throws IllegalArgumentException if the host is blank or the port out of range */
    public HostAndPort {
        Objects.requireNonNull(host, "host");
        if (host.isBlank() || port < 1 || port > 65535) {
            throw new IllegalArgumentException("not an address: host=" + host + " port=" + port);
        }
    }

    /**
     * Reads {@code host:port} or {@code [address]:port}.
     *
     * @throws IllegalArgumentException if the text is neither
     */
    public static HostAndPort parse(String text) {
        int colon = text.lastIndexOf(':');
        if (colon <= 0) {
            throw new IllegalArgumentException("not host:port: address=" + text);
        }
        String host = text.substring(0, colon);
        if (host.startsWith("[") && host.endsWith("]")) {
            host = host.substring(1, host.length() - 1);
        }
        try {
            return new HostAndPort(host, Integer.parseInt(text.substring(colon + 1)));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("not host:port: address=" + text, e);
        }
    }

    /** The address with its name resolved now. */
    InetSocketAddress resolve() {
        return new InetSocketAddress(host, port);
    }

    @Override
    public String toString() {
        return host.indexOf(':') < 0 ? host + ":" + port : "[" + host + "]:" + port;
    }
}
