package dev.kcp.launcher;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The arguments of this process as the bytes that they are. Java reads them as UTF-8 text and puts one and the same letter
 * in the place of what is none, so that another file would be meant and a rank would get something else.
 */
final class RawArguments {
    /** What stands for bytes that are no text; a text may hold it too. */
    private static final char LOST = '\uFFFD';

    private final List<byte[]> bytes;

    private RawArguments(List<byte[]> bytes) {
        this.bytes = bytes;
    }

    /** The last arguments of this process, of which {@code texts} is what Java made. */
    static RawArguments lastOf(List<String> texts) {
        if (texts.stream().anyMatch(text -> text.indexOf(LOST) >= 0)) {
            List<byte[]> all = all();
            List<byte[]> last = all.subList(Math.max(0, all.size() - texts.size()), all.size());
            // Otherwise the command was called within a JVM that does something else.
            if (last.stream()
                    .map(word -> new String(word, StandardCharsets.UTF_8))
                    .toList()
                    .equals(texts)) {
                return new RawArguments(List.copyOf(last));
            }
        }
        return new RawArguments(List.of());
    }

    private static List<byte[]> all() {
        try {
            List<byte[]> all = new ArrayList<>();
            ByteArrayOutputStream word = new ByteArrayOutputStream();
            for (byte letter : Files.readAllBytes(Path.of("/proc/self/cmdline"))) {
                if (letter == 0) {
                    all.add(word.toByteArray());
                    word.reset();
                } else {
                    word.write(letter);
                }
            }
            return all;
        } catch (IOException e) {
            throw new UncheckedIOException("this process's arguments cannot be read", e);
        }
    }

    /**
     * Refuses what is no text among the first {@code count} arguments: those that kcp reads itself.
     *
     * @throws IllegalArgumentException naming the argument
     */
    void requireText(int count) {
        for (byte[] word : bytes.subList(0, Math.min(count, bytes.size()))) {
            if (!isText(word)) {
                throw new IllegalArgumentException("an argument is not UTF-8: argument=" + escaped(word, "\\x%02x"));
            }
        }
    }

    /** The last {@code count} of these arguments. */
    RawArguments last(int count) {
        return new RawArguments(bytes.subList(Math.max(0, bytes.size() - count), bytes.size()));
    }

    /**
     * A command that ends in these arguments, with their bytes. Java cannot hand on what is no text, so a shell makes the
     * words anew and becomes the program.
     */
    List<String> behind(List<String> command) {
        if (bytes.stream().allMatch(RawArguments::isText)) {
            return command;
        }
        StringBuilder script = new StringBuilder();
        StringBuilder words = new StringBuilder("exec");
        int first = command.size() - bytes.size();
        for (int i = 0; i < command.size(); i++) {
            if (i < first || isText(bytes.get(i - first))) {
                words.append(" \"${").append(i + 1).append("}\"");
            } else {
                // The last letter keeps the shell from cutting off a line's end.
                script.append("w%d=$(printf '%sx')\n".formatted(i, escaped(bytes.get(i - first), "\\%03o")));
                words.append(" \"${w").append(i).append("%x}\"");
            }
        }
        List<String> wrapped =
                new ArrayList<>(List.of("/bin/sh", "-c", script.append(words).toString(), "kcp-words"));
        wrapped.addAll(command);
        return wrapped;
    }

    private static boolean isText(byte[] word) {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(word));
            return true;
        } catch (CharacterCodingException e) {
            return false;
        }
    }

    private static String escaped(byte[] word, String format) {
        StringBuilder text = new StringBuilder();
        for (byte letter : word) {
            boolean isPlain = letter >= '+' && letter <= 'z' && letter != '\\';
            text.append(isPlain ? Character.toString(letter) : format.formatted(letter & 0xff));
        }
        return text.toString();
    }
}
