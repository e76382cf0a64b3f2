package dev.kcp.comm;

import dev.kcp.files.FileFailures;
import java.io.Closeable;
import java.io.IOException;
import java.net.UnknownHostException;
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

    /** What went wrong, for users: the exception of an unknown host mostly says only the name. */
    static String reason(IOException e) {
        boolean isNameAlone = e instanceof UnknownHostException
                && !String.valueOf(e.getMessage()).contains(" ");
        return isNameAlone ? "no such host: " + e.getMessage() : FileFailures.reason(e);
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
