package dev.kcp.comm;

import java.io.Closeable;
import java.io.IOException;
import java.time.Duration;

/** Small helps for connections. */
final class Sockets {
    private static final Duration JOIN_LIMIT = Duration.ofSeconds(5);

    private Sockets() {}

    /** Closes what may be null; a connection that fails to close is as gone as one that closed. */
    static void closeQuietly(Closeable connection) {
        if (connection != null) {
            try {
                connection.close();
            } catch (IOException _) {
                // Nothing was to be written any more.
            }
        }
    }

    /** What went wrong, for users: some exceptions, such as of an unknown host, say only a name. */
    static String reason(IOException e) {
        return e.getClass() == IOException.class
                        || e.getMessage() != null && e.getMessage().contains(" ")
                ? e.getMessage()
                : e.getClass().getSimpleName() + " " + e.getMessage();
    }

    static void pauseAfterFailedAccept() {
        try {
            Thread.sleep(10); // out of file handles, perhaps: do not spin
        } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
        }
    }

    static void joinQuietly(Thread thread) {
        try {
            thread.join(JOIN_LIMIT);
        } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
        }
    }
}
