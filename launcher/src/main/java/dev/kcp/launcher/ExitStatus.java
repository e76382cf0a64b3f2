package dev.kcp.launcher;

import java.util.Optional;

/**
 * How a process ended, in the shell's way of counting: an exit code, or 128 + n for signal n.
 *
 * @param value 0 to 255
 */
record ExitStatus(int value) {
    static final ExitStatus DONE = new ExitStatus(0);

    private static final int SIGNAL_BASE = 128;

    /** Linux on x86-64 and arm64; index = signal number. */
    private static final String[] SIGNALS = {
        "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS"
    };

    boolean isDone() {
        return value == 0;
    }

    /** {@code SIGKILL} for 137; empty for an exit code. */
    Optional<String> signal() {
        int number = value - SIGNAL_BASE;
        return number > 0 && number < SIGNALS.length ? Optional.of("SIG" + SIGNALS[number]) : Optional.empty();
    }

    /** Whether it was told to end, by SIGHUP, SIGINT or SIGTERM: a JVM ends with these codes after it has cleared up. */
    boolean isAskedToEnd() {
        return value == SIGNAL_BASE + 1 || value == ExitCode.INTERRUPTED || value == ExitCode.TERMINATED;
    }

    /** {@code was ended by SIGKILL (signal 9)} or {@code exited with code 3}. */
    String describe() {
        return signal().map(name -> "was ended by " + name + " (signal " + (value - SIGNAL_BASE) + ")")
                .orElse("exited with code " + value);
    }
}
