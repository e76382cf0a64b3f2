package dev.kcp.launcher;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Cuts one rank's output into lines, for the console and the failure report. A line passes whole, and a last one without
 * its newline is completed. A line with carriage returns is one that is written over, as a progress bar is: it passes as it
 * comes, with the prefix at its begin and after its returns, and the report gets what it showed last.
 */
final class RankLines {
    /** A longer line is cut here and goes on in a further line: no rank may fill the launcher's memory. */
    static final int MAX_LINE_BYTES = 16 << 20;

    private static final byte[] INCUBATOR_WARNING =
            "WARNING: Using incubator modules: jdk.incubator.vector\n".getBytes(StandardCharsets.US_ASCII);

    private final OutputPump.Route route;
    private final byte[] prefix;
    /** Of the line that has not ended: what has not passed. */
    private final ByteArrayOutputStream pending = new ByteArrayOutputStream();
    /** Of the line that has not ended: what has passed and is not yet written over. */
    private final ByteArrayOutputStream shown = new ByteArrayOutputStream();

    private final ByteArrayOutputStream ready = new ByteArrayOutputStream();
    private boolean isWrittenOver;
    private boolean hasPassed;

    RankLines(OutputPump.Route route) {
        this.route = route;
        this.prefix = route.prefix().getBytes(StandardCharsets.UTF_8);
    }

    void take(byte[] chunk, int length) {
        int begin = 0;
        for (int i = 0; i < length; i++) {
            isWrittenOver |= chunk[i] == '\r';
            if (chunk[i] == '\n') {
                pending.write(chunk, begin, i + 1 - begin);
                endLine();
                begin = i + 1;
            }
        }
        pending.write(chunk, begin, length - begin);
        if (isWrittenOver) {
            passOn();
        }
        if (pending.size() > MAX_LINE_BYTES) {
            pending.write('\n');
            endLine();
        }
        flush();
    }

    /** No more bytes come. */
    void end() {
        if (pending.size() > 0 || hasPassed) {
            pending.write('\n');
            endLine();
            flush();
        }
    }

    /** Returns wait for what follows them: the line's end, or what is written over the line. */
    private void passOn() {
        byte[] bytes = pending.toByteArray();
        int length = bytes.length;
        while (length > 0 && bytes[length - 1] == '\r') {
            length--;
        }
        pending.reset();
        pending.write(bytes, length, bytes.length - length);
        byte[] passed = Arrays.copyOf(bytes, length);
        makeReady(passed);
        show(passed);
        hasPassed |= length > 0;
    }

    private void endLine() {
        byte[] line = pending.toByteArray();
        pending.reset();
        boolean isJvmWarning = Arrays.equals(line, INCUBATOR_WARNING);
        if (hasPassed && isEnd(line) && route.console() != null) {
            flush();
            route.console().endLine(this, line);
        } else if (!(route.hidesJvmWarning() && isJvmWarning)) {
            makeReady(line);
        }
        if (route.tail() != null && !isJvmWarning) {
            show(line);
            route.tail().add(shown.toByteArray());
        }
        shown.reset();
        isWrittenOver = false;
        hasPassed = false;
    }

    /** Keeps what a terminal would show, which a return alone does not change. */
    private void show(byte[] bytes) {
        int end = bytes.length;
        while (end > 0 && (bytes[end - 1] == '\r' || bytes[end - 1] == '\n')) {
            end--;
        }
        int begin = end;
        while (begin > 0 && bytes[begin - 1] != '\r') {
            begin--;
        }
        if (begin > 0 && end > begin || shown.size() > MAX_LINE_BYTES) {
            shown.reset();
        }
        shown.write(bytes, begin, end - begin);
    }

    private static boolean isEnd(byte[] rest) {
        for (byte each : rest) {
            if (each != '\r' && each != '\n') {
                return false;
            }
        }
        return true;
    }

    private void makeReady(byte[] bytes) {
        if (route.console() == null || bytes.length == 0) {
            return;
        }
        ready.writeBytes(prefix);
        if (!isWrittenOver) {
            ready.writeBytes(bytes);
            return;
        }
        for (int i = 0; i < bytes.length; i++) {
            boolean isAfterReturn = i > 0 && bytes[i - 1] == '\r' && bytes[i] != '\r' && bytes[i] != '\n';
            if (isAfterReturn) {
                ready.writeBytes(prefix);
            }
            ready.write(bytes[i]);
        }
    }

    private void flush() {
        if (ready.size() > 0) {
            route.console().write(this, ready.toByteArray(), prefix.length);
            ready.reset();
        }
    }
}
