package dev.kcp.train;

import java.nio.file.Path;
import java.util.EnumMap;
import java.util.Map;
import java.util.function.Consumer;

/** What a user should know of the files that text was read from: of each kind one line, however many files it is about. */
final class TextNotes {
    /** What is said of a file. */
    enum Kind {
        OUTPUT("outputs of this run are left out of the text"),
        DANGLING("links that lead nowhere are left out of the text"),
        NO_FILE("pipes, sockets and devices are left out of the text"),
        AGAIN("files come more than once, and are read as often"),
        BYTE_ORDER_MARK("files begin with a byte order mark, which is read as text");

        private final String text;

        Kind(String text) {
            this.text = text;
        }
    }

    private final Map<Kind, Path> first = new EnumMap<>(Kind.class);
    private final Map<Kind, Integer> count = new EnumMap<>(Kind.class);

    void add(Kind kind, Path file) {
        // A folder tells its files in no order.
        first.merge(kind, file, (one, other) -> one.compareTo(other) <= 0 ? one : other);
        count.merge(kind, 1, Integer::sum);
    }

    void tell(Consumer<String> notes) {
        first.forEach((kind, file) -> notes.accept(kind.text + ": count=" + count.get(kind) + " first=" + file));
    }
}
