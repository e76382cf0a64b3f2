package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A folder of saved states, {@code state-00000300.safetensors} for the state after step 300. Which is newer is what the
 * files say, not their names. It is looked into without ceremony; who writes to it locks it, and only then is a file
 * renamed or removed.
 */
final class StateFolder implements AutoCloseable {
    private static final Pattern STATE = Pattern.compile("state-(\\d{8,18})\\.safetensors");
    private static final Pattern PART = Pattern.compile("\\.state-\\d{8,18}\\.safetensors\\..*part");
    private static final String DAMAGED = ".damaged";

    private final Path folder;
    private FileChannel lockFile;

    StateFolder(Path folder) {
        this.folder = folder;
    }

    /** A state that was found. */
    record Found(Path file, RunPosition position) {}

    /** Whether a name is one of a state, in use or set aside. */
    static boolean isState(Path file) {
        String name = file.getFileName().toString();
        int damaged = name.indexOf(DAMAGED);
        return STATE.matcher(damaged < 0 ? name : name.substring(0, damaged)).matches();
    }

    /**
     * @throws IllegalArgumentException if there are states, and the run is not to go on from one
     * @throws KcpException with {@code BAD_DATA} if the folder is something else
     */
    void checkUse(boolean resume) {
        if (Files.exists(folder) && !Files.isDirectory(folder)) {
            throw bad("not a folder: save=" + folder, null);
        }
        List<Path> states = states();
        if (!resume && !states.isEmpty()) {
            throw new IllegalArgumentException(
                    "the folder holds states of a run; give --resume to go on with it, or" + " another folder: save="
                            + folder + " newest=" + states.getFirst().getFileName());
        }
    }

    /**
     * Makes the folder where it is missing, keeps other runs out of it, and removes what a killed run had half written.
     *
     * @throws KcpException with {@code BAD_DATA} if another process saves there, or it cannot be written
     */
    void lock() {
        try {
            Files.createDirectories(folder);
            FileChannel channel =
                    FileChannel.open(folder.resolve(".lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            lockFile = channel;
            if (!isLocked(channel)) {
                throw bad("another run saves in this folder: save=" + folder, null);
            }
            for (Path part : files(PART)) {
                Files.deleteIfExists(part);
            }
        } catch (IOException failure) {
            throw bad(
                    "the folder cannot be written: save=" + folder + " cause=" + FileFailures.reason(failure), failure);
        }
    }

    private static boolean isLocked(FileChannel channel) throws IOException {
        try {
            FileLock lock = channel.tryLock();
            return lock != null;
        } catch (OverlappingFileLockException byThisProcess) {
            return false;
        }
    }

    /**
     * Reads the newest state that is whole. Once it is found, damaged ones are set aside under another name, so that none
     * is taken for a newer one than those which this run writes.
     *
     * @param buffers overwritten
     * @param notes told of every state that was refused, and why
     * @return empty where there is no state
     * @throws KcpException with {@code BAD_DATA} if there are states but none is whole
     * @throws IllegalArgumentException if the newest whole state belongs to another run, or one is of another version of kcp
     */
    Optional<Found> newest(Map<String, String> identity, StateBuffers buffers, Consumer<String> notes) {
        List<Path> states = states();
        states.forEach(StateFile::checkVersion);
        List<KcpException> reasons = new ArrayList<>();
        for (Path file : states) {
            try {
                RunPosition position = StateFile.read(file, identity, buffers);
                for (Path damaged : states.subList(0, reasons.size())) {
                    setAside(damaged, notes);
                }
                if (!file.equals(file(position.step()))) {
                    notes.accept(
                            "a saved state has the name of another step: file=" + file + " step=" + position.step());
                }
                return Optional.of(new Found(file, position));
            } catch (KcpException refused) {
                notes.accept("refused a saved state, looking for the one before: " + refused.getMessage());
                reasons.add(refused);
            }
        }
        if (!reasons.isEmpty()) {
            KcpException first = reasons.getFirst();
            throw bad(
                    "no saved state in the folder is whole: save=" + folder + " newest: " + first.getMessage(), first);
        }
        return Optional.empty();
    }

    private void setAside(Path damaged, Consumer<String> notes) {
        if (lockFile == null) {
            return;
        }
        Path free = damaged.resolveSibling(damaged.getFileName() + DAMAGED);
        for (int next = 2; Files.exists(free); next++) {
            free = damaged.resolveSibling(damaged.getFileName() + DAMAGED + "-" + next);
        }
        try {
            Files.move(damaged, free);
        } catch (IOException failure) {
            throw bad(
                    "a damaged state cannot be set aside: file=" + damaged + " cause=" + FileFailures.reason(failure),
                    failure);
        }
        notes.accept("set the damaged state aside: file=" + free);
    }

    /** Writes a state, then removes older ones, all but the newest {@code keep - 1}. */
    void save(RunPosition position, Map<String, String> identity, StateBuffers buffers, int keep) {
        StateFile.write(file(position.step()), position, identity, buffers);
        try {
            for (Path old : olderThan(position.step()).stream().skip(keep - 1).toList()) {
                Files.deleteIfExists(old);
            }
        } catch (IOException failure) {
            throw bad(
                    "an old state cannot be removed: save=" + folder + " cause=" + FileFailures.reason(failure),
                    failure);
        }
    }

    Path file(int step) {
        return folder.resolve(String.format(Locale.ROOT, "state-%08d.safetensors", step));
    }

    /** The newest first. */
    private List<Path> states() {
        return olderThan(Long.MAX_VALUE);
    }

    private List<Path> olderThan(long step) {
        try {
            return !Files.isDirectory(folder)
                    ? List.of()
                    : files(STATE).stream()
                            .map(file -> new State(file, step(file)))
                            .filter(state -> state.step() < step)
                            .sorted(Comparator.comparingLong(State::step)
                                    .thenComparing(State::file)
                                    .reversed())
                            .map(State::file)
                            .toList();
        } catch (IOException failure) {
            throw bad("the folder cannot be read: save=" + folder + " cause=" + FileFailures.reason(failure), failure);
        }
    }

    private record State(Path file, long step) {}

    /** The step that a state says it was saved after; where it cannot say, that of its name. */
    private static long step(Path state) {
        Matcher name = STATE.matcher(state.getFileName().toString());
        long named = name.matches() ? Long.parseLong(name.group(1)) : 0;
        return StateFile.claimedStep(state).orElse(named);
    }

    private List<Path> files(Pattern name) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(
                            file -> name.matcher(file.getFileName().toString()).matches())
                    .toList();
        }
    }

    private static KcpException bad(String message, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, message, cause);
    }

    @Override
    public void close() {
        if (lockFile != null) {
            try {
                lockFile.close();
            } catch (IOException failure) {
                throw bad("the folder's lock cannot be closed: save=" + folder, failure);
            }
            lockFile = null;
        }
    }
}
