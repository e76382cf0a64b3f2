package dev.kcp.launcher;

import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;

/**
 * What the command itself prints on stdout. {@link System#out} keeps failures to itself; here the first one is said at once
 * and counts in the exit code. Where the reader is gone, the process ends as SIGPIPE would end it, but with its shutdown
 * hooks: a run that saves, saves.
 */
final class PrintedOutput extends OutputStream {
    private final OutputStream stream;
    private final Runnable onReaderGone;
    private volatile IOException failure;

    /** @param onReaderGone called once, from the thread that prints, which must go on */
    PrintedOutput(OutputStream stream, Runnable onReaderGone) {
        this.stream = stream;
        this.onReaderGone = onReaderGone;
    }

    /** Takes the place of {@link System#out}. */
    static PrintedOutput install() {
        PrintedOutput printed = new PrintedOutput(StandardStream.out(), () -> Thread.ofPlatform()
                .daemon()
                .name("kcp-reader-gone")
                .start(() -> System.exit(ExitCode.OUTPUT_CLOSED)));
        System.setOut(new PrintStream(printed, true, System.out.charset()));
        return printed;
    }

    /** The exit code of a command that ended with {@code code}: a failure of its own comes first. */
    int exitCode(int code) {
        if (failure == null || code != ExitCode.DONE) {
            return code;
        }
        return failure instanceof StandardStream.ReaderGone ? ExitCode.OUTPUT_CLOSED : ExitCode.BAD_DATA;
    }

    @Override
    public void write(int one) throws IOException {
        write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int begin, int length) throws IOException {
        try {
            stream.write(bytes, begin, length);
        } catch (IOException e) {
            boolean isFirst = failure == null;
            failure = isFirst ? e : failure;
            if (isFirst && e instanceof StandardStream.ReaderGone) {
                onReaderGone.run();
            } else if (isFirst) {
                System.err.println(lost("standard output", e));
            }
            throw e;
        }
    }

    /** The line that says that output is lost. */
    static String lost(String where, IOException e) {
        return "kcp: " + where + " cannot be written, output is lost: cause=" + FileFailures.reason(e);
    }
}
