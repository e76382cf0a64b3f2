package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OutputPumpTest {
    private final ByteArrayOutputStream seen = new ByteArrayOutputStream();
    private final OutputSink sink = new OutputSink(seen, new ConsoleLine(), e -> {});

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

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 7, 1000})
    void progressBarKeepsItsBytesAndHasItsPrefixAfterEveryReturn(int chunk) throws InterruptedException {
        assertThat(pumped("a\n\r10%\r\r20%\r\nb\nleft\r", chunk, false))
                .isEqualTo("[rank 3] a\n[rank 3] \r[rank 3] 10%\r\r[rank 3] 20%\r\n[rank 3] b\n[rank 3] left\r\n");
    }

    /** A rank that prints what it is given; {@link #awaitSeen} tells what has been passed on. */
    private PipedOutputStream rank(int number) throws IOException {
        PipedOutputStream output = new PipedOutputStream();
        OutputPump.start(
                "test",
                new PipedInputStream(output),
                new OutputPump.Route(sink, "[rank " + number + "] ", false, null, null));
        return output;
    }

    private void print(OutputStream rank, String text, String added) throws IOException {
        String expected = seen.toString(StandardCharsets.UTF_8) + added;
        rank.write(text.getBytes(StandardCharsets.UTF_8));
        rank.flush();
        Eventually.reach("the console shows " + expected, () -> seen.toString(StandardCharsets.UTF_8)
                .equals(expected));
    }

    @Test
    void progressBarPassesAsItComesAndAnotherRanksLineBeginsAnew() throws IOException {
        try (PipedOutputStream first = rank(0);
                PipedOutputStream second = rank(1)) {
            print(first, "\r10%", "[rank 0] \r[rank 0] 10%");
            print(first, " of 9", " of 9");
            print(first, "\r20%", "\r[rank 0] 20%");
            print(second, "loss 3\n", "\n[rank 1] loss 3\n");
            print(first, " of 9\r30%", "[rank 0]  of 9\r[rank 0] 30%");
            print(first, "\nend\n", "\n[rank 0] end\n");
            print(first, "40%\r", "[rank 0] 40%");
            print(first, "\n", "\r\n");
            print(first, "50%\r60%", "[rank 0] 50%\r[rank 0] 60%");
            sink.write("kcp: words\n");
            print(first, "\r\nend\n", "[rank 0] end\n");
        }
    }

    @Test
    void reportShowsWhatAProgressBarShowedLast() throws InterruptedException {
        for (int chunk : new int[] {1, 2, 3, 7, 1000}) {
            OutputTail tail = new OutputTail();
            byte[] bytes = "\r10%\r\r20%\n\rE: boom\r\n9%\r99%\r".getBytes(StandardCharsets.UTF_8);
            await(OutputPump.start(
                    "test", inChunks(bytes, chunk), new OutputPump.Route(null, "p ", false, null, tail)));
            assertThat(tail.lines()).containsExactly("20%", "E: boom", "99%");
        }
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
        String text = pumped("x".repeat(RankLines.MAX_LINE_BYTES + extra), 64 << 10, false);
        assertThat(text.lines()).hasSize(2).allMatch(line -> line.startsWith("[rank 3] x"));
        assertThat(text.chars().filter(c -> c == 'x').count()).isEqualTo(RankLines.MAX_LINE_BYTES + extra);
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
        return new OutputSink(stream, new ConsoleLine(), e -> {});
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
        OutputSink broken = new OutputSink(closed, new ConsoleLine(), e -> told.incrementAndGet());
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
