package dev.kcp.comm;

import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Optional;

/**
 * How far one rank is in its calls, in a small mapped file: a call costs no system call, and the file tells even of a rank
 * that was stopped or killed. Little-endian.
 *
 * <pre>
 * | begun:8 | finished:8 | textBytes:8 | text, UTF-8 ... |
 * </pre>
 */
public final class CallProgress implements AutoCloseable {
    private static final long BEGUN_OFFSET = 0;
    private static final long FINISHED_OFFSET = 8;
    private static final long TEXT_BYTES_OFFSET = 16;
    private static final int TEXT_OFFSET = 24;
    private static final int FILE_BYTES = 512;
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final Arena arena = Arena.ofShared();
    private final MemorySegment file;
    private long begun;
    private long finished;
    private boolean closed;

    /**
     * What the file says.
     *
     * @param begun calls and waits for agreement that the rank began
     * @param finished those that it ended
     * @param last the one that it began last
     */
    public record State(long begun, long finished, String last) {
        /** Whether the rank is inside a call, or waits for what others mean. */
        public boolean isInside() {
            return begun > finished;
        }
    }

    private CallProgress(Path path) throws IOException {
        try (FileChannel channel =
                FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            channel.truncate(0);
            // Room before it is mapped: a store to a page that a full disk cannot hold ends the JVM.
            channel.write(ByteBuffer.allocate(FILE_BYTES));
            file = channel.map(FileChannel.MapMode.READ_WRITE, 0, FILE_BYTES, arena);
        } catch (IOException | RuntimeException e) {
            arena.close();
            throw e;
        }
    }

    /**
     * Begins the file anew.
     *
     * @throws UncheckedIOException if it cannot be made
     */
    static CallProgress open(Path path) {
        try {
            return new CallProgress(path);
        } catch (IOException e) {
            throw new UncheckedIOException(
                    "cannot keep the progress of calls: file=" + path,
                    new FileSystemException(path.toString(), null, FileFailures.reason(e)));
        }
    }

    synchronized void begin(String what) {
        if (!closed) {
            ByteBuffer text = StandardCharsets.UTF_8.encode(what);
            text.limit(Math.min(text.limit(), FILE_BYTES - TEXT_OFFSET));
            MemorySegment.copy(MemorySegment.ofBuffer(text), 0, file, TEXT_OFFSET, text.limit());
            file.set(LONG, TEXT_BYTES_OFFSET, text.limit());
            file.set(LONG, BEGUN_OFFSET, ++begun);
        }
    }

    synchronized void finish() {
        if (!closed) {
            file.set(LONG, FINISHED_OFFSET, ++finished);
        }
    }

    /** What a rank's file says; while the rank goes on, the text may be half of one call and half of the next. */
    public static Optional<State> read(Path path) {
        try {
            byte[] bytes = Files.readAllBytes(path);
            if (bytes.length < FILE_BYTES) {
                return Optional.empty();
            }
            ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            int textBytes = Math.clamp(in.getLong((int) TEXT_BYTES_OFFSET), 0, FILE_BYTES - TEXT_OFFSET);
            return Optional.of(new State(
                    in.getLong((int) BEGUN_OFFSET),
                    in.getLong((int) FINISHED_OFFSET),
                    new String(bytes, TEXT_OFFSET, textBytes, StandardCharsets.UTF_8)));
        } catch (IOException none) {
            return Optional.empty();
        }
    }

    /** Leaves the file as it is. */
    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            arena.close();
        }
    }
}
