package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.nio.file.FileVisitOption;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * The files below given paths that text is read from: no hidden ones below a given folder, nor what the run itself writes.
 * A file is known by its inode, whatever path leads to it.
 */
final class TextFiles {
    private final Map<Object, String> outputs = new HashMap<>();
    private final TextNotes notes;
    private final Set<Object> seen = new HashSet<>();
    private final List<Path> files = new ArrayList<>();

    private TextFiles(Map<String, Path> outputs, TextNotes notes) {
        this.notes = notes;
        outputs.forEach((option, path) -> {
            try {
                this.outputs.put(
                        Files.readAttributes(path, BasicFileAttributes.class).fileKey(), option);
            } catch (IOException notThereYet) {
                // Then nobody finds it among the text.
            }
        });
    }

    /**
     * Finds all files, those of a folder in the order of their paths.
     *
     * @param outputs what the run writes, by the option that names it
     * @param notes told what was left out, and what comes more than once
     * @throws KcpException with {@code BAD_DATA} if a path is missing or unreadable
     * @throws IllegalArgumentException if a path is empty, or a given file is an output too
     */
    static List<Path> under(List<Path> paths, Map<String, Path> outputs, TextNotes notes) {
        TextFiles all = new TextFiles(outputs, notes);
        paths.forEach(all::add);
        return all.files;
    }

    private void add(Path path) {
        if (path.toString().isEmpty()) {
            throw new IllegalArgumentException("text has an empty path: data=");
        }
        try {
            BasicFileAttributes given = Files.readAttributes(path, BasicFileAttributes.class);
            if (given.isDirectory()) {
                Walk walk = new Walk(path);
                Files.walkFileTree(path, EnumSet.of(FileVisitOption.FOLLOW_LINKS), Integer.MAX_VALUE, walk);
                walk.found.forEach(this::take);
            } else if (!given.isRegularFile()) {
                throw bad("neither a file nor a folder: data=" + path, null);
            } else if (outputs.containsKey(given.fileKey())) {
                throw new IllegalArgumentException("a file cannot be text to read and an output too: data=" + path + " "
                        + outputs.get(given.fileKey()) + "=" + path);
            } else {
                take(path, given.fileKey());
            }
        } catch (IOException failure) {
            throw bad(
                    Files.exists(path)
                            ? "cannot be read: data=" + path + " cause=" + FileFailures.reason(failure)
                            : "no such file or folder: data=" + path,
                    failure);
        }
    }

    private void take(Path file, Object key) {
        files.add(file);
        if (!seen.add(key)) {
            notes.add(TextNotes.Kind.AGAIN, file);
        }
    }

    /** A folder and all below it. What is hidden is not even opened. */
    private final class Walk extends SimpleFileVisitor<Path> {
        private final Path root;
        private final SortedMap<Path, Object> found = new TreeMap<>();
        private boolean holdsStates;

        Walk(Path root) {
            this.root = root;
        }

        @Override
        public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes) {
            boolean isOutput = outputs.containsKey(attributes.fileKey());
            if (folder.equals(root)) {
                holdsStates = isOutput;
                return FileVisitResult.CONTINUE;
            }
            if (isOutput) {
                notes.add(TextNotes.Kind.OUTPUT, folder);
            }
            return isOutput || isHidden(folder) ? FileVisitResult.SKIP_SUBTREE : FileVisitResult.CONTINUE;
        }

        @Override
        public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
            boolean isState = holdsStates && file.getParent().equals(root) && StateFolder.isState(file);
            if (isHidden(file)) {
                return FileVisitResult.CONTINUE;
            } else if (isState || outputs.containsKey(attributes.fileKey())) {
                notes.add(TextNotes.Kind.OUTPUT, file);
            } else if (attributes.isSymbolicLink()) {
                notes.add(TextNotes.Kind.DANGLING, file);
            } else if (!attributes.isRegularFile()) {
                notes.add(TextNotes.Kind.NO_FILE, file);
            } else {
                found.put(file, attributes.fileKey());
            }
            return FileVisitResult.CONTINUE;
        }

        @Override
        public FileVisitResult visitFileFailed(Path file, IOException failure) throws IOException {
            if (file.equals(root) || !isHidden(file)) {
                throw failure;
            }
            return FileVisitResult.CONTINUE;
        }

        private boolean isHidden(Path path) {
            return path.getFileName().toString().startsWith(".");
        }
    }

    private static KcpException bad(String message, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, message, cause);
    }
}
