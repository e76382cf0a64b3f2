package dev.kcp.launcher;

import dev.kcp.KcpException;

/** What the {@code kcp} command ends with. Failures with a cause code carry theirs in {@link KcpException.Code}. */
public final class ExitCode {
    public static final int DONE = 0;
    public static final int FAILED = 1;
    public static final int USAGE = 2;
    public static final int BAD_DATA = KcpException.Code.BAD_DATA.exitCode();
    public static final int RENDEZVOUS = KcpException.Code.RENDEZVOUS.exitCode();
    public static final int RANK_FAILED = KcpException.Code.RANK_FAILED.exitCode();
    public static final int DEADLINE = KcpException.Code.DEADLINE.exitCode();
    public static final int MISSING_DEVICE = KcpException.Code.MISSING_DEVICE.exitCode();
    public static final int INTERRUPTED = 130;
    /** Standard output was closed by its reader, as in {@code kcp ... | head}: 128 + SIGPIPE. */
    public static final int OUTPUT_CLOSED = 141;

    public static final int TERMINATED = 143;

    private ExitCode() {}
}
