package dev.kcp.launcher;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;

/** The last lines of one rank's output, for the failure report; written by a pump and read by the agent. */
final class OutputTail {
    static final int MAX_LINES = 60;
    private static final int MAX_LINE_BYTES = 2000;

    private final Deque<String> lines = new ArrayDeque<>();

    /** Takes a line with its newline. */
    synchronized void add(byte[] line) {
        int length = Math.min(line.length, MAX_LINE_BYTES);
        String text = new String(line, 0, length, StandardCharsets.UTF_8).stripTrailing();
        if (!text.isEmpty()) {
            if (lines.size() == MAX_LINES) {
                lines.removeFirst();
            }
            lines.addLast(text);
        }
    }

    synchronized List<String> lines() {
        return new ArrayList<>(lines);
    }

    /**
     * What the program said last of its failure: the last line that kcp itself wrote, or the last that is not indented,
     * which in a stack trace of Java is the exception or its deepest cause and in one of Python the exception.
     */
    static Optional<String> message(List<String> lines) {
        for (String line : lines.reversed()) {
            if (line.startsWith("kcp: ")) {
                return Optional.of(line.substring("kcp: ".length()));
            }
        }
        for (String line : lines.reversed()) {
            if (!Character.isWhitespace(line.charAt(0))) {
                return Optional.of(line);
            }
        }
        return Optional.empty();
    }
}
