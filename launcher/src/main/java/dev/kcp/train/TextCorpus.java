package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.zip.CRC32C;

/** Training text as documents. Documents keep the order of their files, and files that of their paths. */
public final class TextCorpus {
    /** What a document is. */
    public enum Documents {
        /**
         * A run of lines between blank lines. A blank line holds nothing but its ending, {@code \n} or {@code \r\n}; a
         * document ends before the line ending of its last line.
         */
        BLANK_LINE,
        /** A whole file, byte by byte; empty files are left out. */
        FILE
    }

    private final List<byte[]> texts = new ArrayList<>();
    private int[] textOf = new int[64];
    private int[] beginOf = new int[64];
    private int[] endOf = new int[64];
    private int documents;
    private long bytes;

    private TextCorpus() {}

    /** A corpus of the given texts, each as one file would be; NUL bytes are taken as they come. */
    public static TextCorpus of(byte[]... texts) {
        TextCorpus corpus = new TextCorpus();
        for (byte[] text : texts) {
            corpus.add(text);
        }
        return corpus;
    }

    /** As the other forms, with documents between blank lines. */
    public static TextCorpus read(List<Path> paths, boolean allowBinary) {
        return read(paths, allowBinary, Documents.BLANK_LINE);
    }

    /** As the other form, for a run that writes no file; nothing is noted. */
    public static TextCorpus read(List<Path> paths, boolean allowBinary, Documents documents) {
        return read(paths, allowBinary, documents, Map.of(), note -> {});
    }

    /**
     * Reads files, and folders with all that lies below them. Hidden files and folders below a given folder are skipped, and
     * what the run itself writes.
     *
     * @param allowBinary whether NUL bytes, which also mark where documents start and end, are taken as text
     * @param outputs files and folders that the run writes, by the option that names them
     * @param notes takes what a user should know, one line at a time
     * @throws KcpException with {@code BAD_DATA} if a path is missing or unreadable, a file holds NUL bytes, or no
     *     document was found
     * @throws IllegalArgumentException if a path is empty, or a given file is an output too
     */
    public static TextCorpus read(
            List<Path> paths,
            boolean allowBinary,
            Documents documents,
            Map<String, Path> outputs,
            Consumer<String> notes) {
        TextCorpus corpus = new TextCorpus();
        TextNotes toTell = new TextNotes();
        for (Path file : TextFiles.under(paths, outputs, toTell)) {
            byte[] text = readAll(file);
            int nul = allowBinary ? -1 : indexOfNul(text);
            if (nul >= 0) {
                throw bad(
                        "the file holds NUL bytes, so it is hardly text (--allow-binary takes it): file=" + file
                                + " offset=" + nul,
                        null);
            }
            if (beginsWithByteOrderMark(text)) {
                toTell.add(TextNotes.Kind.BYTE_ORDER_MARK, file);
            }
            switch (documents) {
                case BLANK_LINE -> corpus.add(text);
                case FILE -> corpus.addWhole(text);
            }
        }
        toTell.tell(notes);
        if (corpus.documents == 0) {
            throw bad("no document was found, all text is blank: data=" + paths, null);
        }
        return corpus;
    }

    private static boolean beginsWithByteOrderMark(byte[] text) {
        int first = text.length < 2 ? 0 : (text[0] & 0xFF) << 8 | text[1] & 0xFF;
        return first == 0xFEFF || first == 0xFFFE || first == 0xEFBB && text.length > 2 && text[2] == (byte) 0xBF;
    }

    /** How many documents of another corpus are documents of this one too, byte by byte. */
    int shared(TextCorpus other) {
        Set<ByteBuffer> wanted = new HashSet<>();
        for (int document = 0; document < other.documents; document++) {
            wanted.add(other.bytesOf(document));
        }
        Set<ByteBuffer> found = new HashSet<>();
        for (int document = 0; document < documents; document++) {
            ByteBuffer mine = bytesOf(document);
            if (wanted.contains(mine)) {
                found.add(mine);
            }
        }
        int shared = 0;
        for (int document = 0; document < other.documents; document++) {
            shared += found.contains(other.bytesOf(document)) ? 1 : 0;
        }
        return shared;
    }

    private ByteBuffer bytesOf(int document) {
        return ByteBuffer.wrap(texts.get(textOf[document]), beginOf[document], bytes(document));
    }

    /** Documents, none of them empty. */
    public int documents() {
        return documents;
    }

    /** Length of a document. */
    public int bytes(int document) {
        return endOf[document] - beginOf[document];
    }

    /** Length of all documents together. */
    public long bytes() {
        return bytes;
    }

    /** A checksum of all documents and where they end. */
    long digest() {
        CRC32C checksum = new CRC32C();
        for (int document = 0; document < documents; document++) {
            checksum.update(texts.get(textOf[document]), beginOf[document], bytes(document));
            checksum.update(0);
        }
        return checksum.getValue();
    }

    /** Copies bytes {@code [begin, end)} of a document. */
    void copy(int document, int begin, int end, byte[] to, int toOffset) {
        System.arraycopy(texts.get(textOf[document]), beginOf[document] + begin, to, toOffset, end - begin);
    }

    private void addWhole(byte[] text) {
        if (text.length > 0) {
            texts.add(text);
            addDocument(0, text.length);
        }
    }

    private void add(byte[] text) {
        texts.add(text);
        int begin = -1;
        int end = -1;
        for (int line = 0; line < text.length; ) {
            int newline = line;
            while (newline < text.length && text[newline] != '\n') {
                newline++;
            }
            // A carriage return belongs to the line's ending only where a newline follows it.
            boolean carriageReturn = newline < text.length && newline > line && text[newline - 1] == '\r';
            int lineEnd = carriageReturn ? newline - 1 : newline;
            if (lineEnd > line) {
                begin = begin < 0 ? line : begin;
                end = lineEnd;
            } else if (begin >= 0) {
                addDocument(begin, end);
                begin = -1;
            }
            line = newline + 1;
        }
        if (begin >= 0) {
            addDocument(begin, end);
        }
    }

    private void addDocument(int begin, int end) {
        if (documents == textOf.length) {
            textOf = Arrays.copyOf(textOf, 2 * documents);
            beginOf = Arrays.copyOf(beginOf, 2 * documents);
            endOf = Arrays.copyOf(endOf, 2 * documents);
        }
        textOf[documents] = texts.size() - 1;
        beginOf[documents] = begin;
        endOf[documents] = end;
        documents++;
        bytes += end - begin;
    }

    private static byte[] readAll(Path file) {
        try {
            return Files.readAllBytes(file);
        } catch (IOException failure) {
            throw bad("the file cannot be read: file=" + file + " cause=" + FileFailures.reason(failure), failure);
        } catch (OutOfMemoryError failure) {
            throw bad("the file does not fit into memory: file=" + file + " bytes=" + sizeOf(file), failure);
        }
    }

    private static String sizeOf(Path file) {
        try {
            return Long.toString(Files.size(file));
        } catch (IOException unknown) {
            return "unknown";
        }
    }

    private static int indexOfNul(byte[] text) {
        for (int i = 0; i < text.length; i++) {
            if (text[i] == 0) {
                return i;
            }
        }
        return -1;
    }

    private static KcpException bad(String message, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, message, cause);
    }
}
