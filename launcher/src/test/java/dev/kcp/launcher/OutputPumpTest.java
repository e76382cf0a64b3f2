package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OutputPumpTest {
    private final ByteArrayOutputStream seen = new ByteArrayOutputStream();
    private final OutputSink sink = new OutputSink(seen, new ReentrantLock(), e -> {});

    /** Gives at most {@code chunk} bytes at a time, so that lines and characters are cut anywhere. */
    private static InputStream inChunks(byte[] bytes, int chunk) {
        return new ByteArrayInputStream(bytes) {
            @Override
            public synchronized int read(byte[] into, int offset, int length) {
                return super.read(into, offset, Math.min(length, chunk));
            }

            @Override
            public int read(byte[] into) {
                return read(into, 0, into.length);
            }
        };
    }

    private static void await(OutputPump pump) throws InterruptedException {
        while (!pump.isDone()) {
            Thread.sleep(1);
        }
    }

    private String pumped(String text, int chunk, boolean hides) throws InterruptedException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        await(OutputPump.start(
                "test", inChunks(bytes, chunk), new OutputPump.Route(sink, "[rank 3] ", hides, null, null)));
        return seen.toString(StandardCharsets.UTF_8);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 7, 1000})
    void everyLineGetsItsPrefixAndKeepsItsBytes(int chunk) throws InterruptedException {
        assertThat(pumped("grüße 日本 🚀\r\n\n\ttwo\nlast", chunk, false))
                .isEqualTo("[rank 3] grüße 日本 🚀\r\n[rank 3] \n[rank 3] \ttwo\n[rank 3] last\n");
    }

    @Test
    void silenceAddsNothing() throws InterruptedException {
        assertThat(pumped("", 1, false)).isEmpty();
    }

    @Test
    void longLineWithoutNewlineIsOneLine() throws InterruptedException {
        String line = "x".repeat(1 << 20);
        assertThat(pumped(line, 1000, false)).isEqualTo("[rank 3] " + line + "\n");
    }

    @Test
    void endlessLineIsCutInsteadOfFillingTheMemory() throws InterruptedException {
        int extra = 3 * (64 << 10);
        String text = pumped("x".repeat(OutputPump.MAX_LINE_BYTES + extra), 64 << 10, false);
        assertThat(text.lines()).hasSize(2).allMatch(line -> line.startsWith("[rank 3] x"));
        assertThat(text.chars().filter(c -> c == 'x').count()).isEqualTo(OutputPump.MAX_LINE_BYTES + extra);
    }

    @Test
    void incubatorWarningIsHiddenOnlyWhereAsked() throws InterruptedException {
        String warning = "WARNING: Using incubator modules: jdk.incubator.vector\n";
        assertThat(pumped(warning + "more\n", 5, true)).isEqualTo("[rank 3] more\n");
        seen.reset();
        assertThat(pumped(warning, 5, false)).isEqualTo("[rank 3] " + warning);
    }

    @Test
    void rawKeepsEveryByte() throws InterruptedException {
        byte[] bytes = new byte[1000];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) i;
        }
        await(OutputPump.start("test", inChunks(bytes, 13), new OutputPump.Route(sink, null, false, null, null)));
        assertThat(seen.toByteArray()).isEqualTo(bytes);
    }

    private static OutputSink sink(OutputStream stream) {
        return new OutputSink(stream, new ReentrantLock(), e -> {});
    }

    @Test
    void closedReaderIsToldOnceAndTheRankIsStillDrained() throws InterruptedException {
        AtomicInteger told = new AtomicInteger();
        OutputStream closed = new OutputStream() {
            @Override
            public void write(int b) throws IOException {
                throw new IOException("Broken pipe");
            }
        };
        OutputSink broken = new OutputSink(closed, new ReentrantLock(), e -> told.incrementAndGet());
        InputStream in = inChunks("a\nb\nc\n".getBytes(StandardCharsets.UTF_8), 2);
        await(OutputPump.start("test", in, new OutputPump.Route(broken, "p ", false, null, null)));
        assertThat(told).hasValue(1);
    }

    @Test
    void logGetsEveryByteAndTheTailTheLastLines() throws InterruptedException {
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        OutputTail tail = new OutputTail();
        byte[] bytes = "one\r\n\n\tat two\nlast".getBytes(StandardCharsets.UTF_8);
        await(OutputPump.start("test", inChunks(bytes, 3), new OutputPump.Route(null, "p ", false, sink(log), tail)));
        assertThat(log.toByteArray()).isEqualTo(bytes);
        assertThat(tail.lines()).containsExactly("one", "\tat two", "last");
        assertThat(seen.size()).isZero();
    }

    @Test
    void fullDiskEndsTheLogAndNotTheRank() throws InterruptedException {
        OutputStream full = new OutputStream() {
            @Override
            public void write(int b) throws IOException {
                throw new IOException("No space left on device");
            }
        };
        byte[] bytes = "a\nb\nc\n".getBytes(StandardCharsets.UTF_8);
        await(OutputPump.start("test", inChunks(bytes, 2), new OutputPump.Route(sink, "p ", false, sink(full), null)));
        assertThat(seen.toString(StandardCharsets.UTF_8)).isEqualTo("p a\np b\np c\n");
    }

    @Test
    void messageIsTheExceptionAndNotItsFrames() {
        assertThat(OutputTail.message(List.of("x", "Exception in thread \"main\" E: boom", "\tat a.b(c)")))
                .hasValue("Exception in thread \"main\" E: boom");
        assertThat(OutputTail.message(List.of("kcp: cut file: in=x", "later noise")))
                .hasValue("cut file: in=x");
        assertThat(OutputTail.message(List.of())).isEmpty();
    }
}
