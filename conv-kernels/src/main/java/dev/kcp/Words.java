package dev.kcp;

import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileSystemException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Messages as users read them: one line each, whatever names and values it quotes, without names of Java classes. */
public final class Words {
    /** A longer run of characters without a space, as a name or a path, loses its middle. */
    public static final int LONGEST_WORD = 1000;

    /** A longer line loses its middle; its begin says what is wrong, its end gives the values. */
    public static final int LONGEST_LINE = 8000;

    private static final Pattern LINE_END = Pattern.compile("\\s*\\R\\s*");
    private static final Pattern LONG_WORD = Pattern.compile("\\S{" + (LONGEST_WORD + 1) + ",}");

    private Words() {}

    /**
     * A message as one line that a terminal shows as it is: line ends become {@code |}, characters that are not seen, such as
     * those that move the cursor or turn the direction of writing, are escaped as in Java, and what is too long is cut.
     */
    public static String line(String message) {
        String oneLine = LINE_END.matcher(message.strip()).replaceAll(" | ");
        StringBuilder seen = new StringBuilder(oneLine.length());
        oneLine.codePoints().forEach(character -> appendSeen(seen, character));
        String words = LONG_WORD
                .matcher(seen)
                .replaceAll(word -> Matcher.quoteReplacement(withoutMiddle(word.group(), LONGEST_WORD)));
        return words.length() > LONGEST_LINE ? withoutMiddle(words, LONGEST_LINE) : words;
    }

    private static void appendSeen(StringBuilder seen, int character) {
        switch (Character.getType(character)) {
            case Character.CONTROL, Character.FORMAT, Character.SURROGATE -> {
                for (char unit : Character.toChars(character)) {
                    seen.append(String.format("\\u%04x", (int) unit));
                }
            }
            default -> seen.appendCodePoint(character);
        }
    }

    /** Keeps three quarters of {@code longest} from the begin and the rest from the end, and says what is missing. */
    private static String withoutMiddle(String text, int longest) {
        int begin = longest * 3 / 4;
        int end = text.length() - (longest - begin - 50);
        begin -= Character.isHighSurrogate(text.charAt(begin - 1)) ? 1 : 0;
        end += Character.isLowSurrogate(text.charAt(end)) ? 1 : 0;
        return text.substring(0, begin) + "...(" + (end - begin) + " characters left out)..." + text.substring(end);
    }

    /** What a failure says, in words. */
    public static String of(Throwable failure) {
        String message = failure.getMessage();
        Throwable cause = failure.getCause();
        if (cause != null && (message == null || message.equals(cause.toString()))) {
            return of(cause);
        }
        return switch (failure) {
            case UncheckedIOException io -> message + " cause=" + FileFailures.reason(io.getCause());
            case FileSystemException file -> FileFailures.reason(file) + ": file=" + file.getFile();
            case IOException io -> FileFailures.reason(io);
            case OutOfMemoryError memory -> "out of memory: " + message;
            case StackOverflowError deep -> "calls are nested too deeply";
            case InterruptedException interrupted -> "interrupted";
            case LinkageError unread when FileFailures.isOutOfFiles() -> FileFailures.OUT_OF_FILES + ": " + message;
            case NoClassDefFoundError missing -> "a part of the program is missing or does not load: class=" + message;
            default -> message == null ? "it failed without a word" : message;
        };
    }
}
