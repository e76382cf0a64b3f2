package dev.kcp.launcher;

import dev.kcp.KcpException;

/** What the {@code kcp} command ends with. Failures with a cause code carry theirs in {@link KcpException.Code}. */
public final class ExitCode {
    /** What was asked for is done. */
    public static final int DONE = 0;

    /** Any other failure; of {@code kcp conv --compare}, that the files differ. */
    public static final int FAILED = 1;

    /** An option or argument cannot be. */
    public static final int USAGE = 2;

    /** As {@link KcpException.Code#BAD_DATA}. */
    public static final int BAD_DATA = KcpException.Code.BAD_DATA.exitCode();

    /** As {@link KcpException.Code#RENDEZVOUS}. */
    public static final int RENDEZVOUS = KcpException.Code.RENDEZVOUS.exitCode();

    /** As {@link KcpException.Code#RANK_FAILED}. */
    public static final int RANK_FAILED = KcpException.Code.RANK_FAILED.exitCode();

    /** As {@link KcpException.Code#DEADLINE}. */
    public static final int DEADLINE = KcpException.Code.DEADLINE.exitCode();

    /** As {@link KcpException.Code#MISSING_DEVICE}. */
    public static final int MISSING_DEVICE = KcpException.Code.MISSING_DEVICE.exitCode();

    /** 128 + SIGINT. */
    public static final int INTERRUPTED = 130;

    /** Standard output was closed by its reader, as in {@code kcp ... | head}: 128 + SIGPIPE. */
    public static final int OUTPUT_CLOSED = 141;

    /** 128 + SIGTERM. */
    public static final int TERMINATED = 143;

    private ExitCode() {}
}
