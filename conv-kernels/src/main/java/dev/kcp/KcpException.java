package dev.kcp;

/**
 * A failure that is neither a wrong argument ({@link IllegalArgumentException}) nor a misused lifetime
 * ({@link IllegalStateException}). The code says what broke; {@link Code#exitCode()} is what the {@code kcp} command
 * ends with.
 */
public final class KcpException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** What broke, each with the exit code of the {@code kcp} command. */
    public enum Code {
        /** Input data that cannot be used, such as a damaged file or offsets that fall; or output that cannot be written. */
        BAD_DATA(3),
        /** Ranks did not find each other in time, or a stranger knocked. */
        RENDEZVOUS(4),
        /** A rank ended or threw; the text names it. */
        RANK_FAILED(5),
        /** A wait passed its deadline. */
        DEADLINE(6),
        /** Ranks called different things, or with different shapes or plans. */
        DISAGREEMENT(7),
        /** A device, driver or native library that was asked for is not there. */
        MISSING_DEVICE(8);

        private final int exitCode;

        Code(int exitCode) {
            this.exitCode = exitCode;
        }

        /** The exit code of a {@code kcp} command that ends with this failure. */
        public int exitCode() {
            return exitCode;
        }
    }

    private final Code code;

    /**
     * A failure without a Java cause.
     *
     * @param message one line that ends in name=value pairs
     */
    public KcpException(Code code, String message) {
        this(code, message, null);
    }

    /**
     * A failure that follows from another.
     *
     * @param message one line that ends in name=value pairs
     * @param cause what was thrown below, or null
     */
    public KcpException(Code code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /** What broke. */
    public Code code() {
        return code;
    }
}
