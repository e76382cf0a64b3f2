package dev.kcp.comm;

import dev.kcp.KcpException;
import java.util.Comparator;

/**
 * Why a group ended. Travels between ranks, so that all of them throw the same text.
 *
 * @param code what broke
 * @param origin world rank where it broke
 * @param call number of the call it concerns, or -1
 * @param message what users read, on every rank
 */
record Failure(KcpException.Code code, int origin, long call, String message) {
    static final int MESSAGE_CHARS = 8000;

    /**
     * Chooses between failures that ranks found at the same moment. A disagreement explains a rank that ended, which
     * explains a deadline; the earlier call explains the later.
     */
    static final Comparator<Failure> ROOT_CAUSE_FIRST = Comparator.<Failure>comparingInt(f -> switch (f.code) {
                case DISAGREEMENT -> 0;
                case RANK_FAILED -> 1;
                default -> 2;
            })
            .thenComparingLong(Failure::call)
            .thenComparingInt(Failure::origin)
            .thenComparing(Failure::message);

    Failure {
        if (message.length() > MESSAGE_CHARS) {
            message = message.substring(0, MESSAGE_CHARS) + "...";
        }
    }

    KcpException toException() {
        return new KcpException(code, message);
    }
}
