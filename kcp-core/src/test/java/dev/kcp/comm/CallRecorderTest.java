package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import dev.kcp.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CallRecorderTest {
    private static final Call HALO = new Call(Call.Kind.HALO_FORWARD, "layer3", 4, DType.BF16, 0xabc);

    @TempDir
    private Path folder;

    private Path file(int rank) {
        return folder.resolve("calls-" + rank + ".jsonl");
    }

    private static void passOn(Communicator c, Call call) {
        try (Arena arena = Arena.ofShared()) {
            MemorySegment mine = arena.allocate(24);
            MemorySegment room = arena.allocate(24);
            int next = (c.rank() + 1) % c.size();
            int previous = (c.rank() + c.size() - 1) % c.size();
            c.exchange(
                            call,
                            List.of(new Segment(next, mine.address(), 24)),
                            List.of(new Segment(previous, room.address(), 24)))
                    .await();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void aRankThatStopsIsTheOneBehind(String transport) throws Exception {
        CountDownLatch over = new CountDownLatch(2);
        CountDownLatch together = new CountDownLatch(3);
        Ranks.outcomes(transport, 3, Ranks.SHORT, c -> {
            c.recorder().writeOnFailure(file(c.rank()));
            together.countDown();
            together.await();
            passOn(c, HALO);
            if (c.rank() == 2) {
                over.await();
            }
            try {
                c.barrier("step 7");
            } finally {
                over.countDown();
            }
            return null;
        });
        List<Path> files = List.of(file(0), file(1), file(2));
        assertThat(files).allMatch(Files::isRegularFile);
        assertThat(Files.readAllLines(file(0)).get(0))
                .contains("\"rank\":0", "\"size\":3", "waited too long in call 1 BARRIER");
        List<String> calls = Files.readAllLines(file(0)).stream()
                .filter(line -> line.contains("\"group\":\"world\""))
                .toList();
        assertThat(calls.getFirst())
                .contains(
                        "\"call\":0",
                        "\"kind\":\"HALO_FORWARD\"",
                        "\"label\":\"layer3\"",
                        "\"sent_bytes\":24",
                        "\"peers\":[1,2]",
                        "\"started\":\"",
                        "\"finished\":\"");
        assertThat(calls.get(1)).contains("\"call\":1", "\"finished\":null");
        assertThat(CallMerge.report(files))
                .isEqualTo("rank 2 is behind in group world: its last call was 0 HALO_FORWARD \"layer3\" channels=4"
                        + " dtype=BF16 plan=abc, finished; others are at call 1\n");
        assertThat(CallMerge.report(List.of(file(0), file(1)))).isEqualTo("rank 2 wrote no calls\n");
    }

    @Test
    void progressTellsOfARankInsideACallAndOfOneThatWaitsForAgreement() throws Exception {
        Ranks.run("local", 2, c -> {
            c.recorder().keepIn(folder);
            c.barrier("both keep it");
            if (c.rank() == 0) {
                c.agree("batch", "same").await();
                c.barrier("last");
                return null;
            }
            CallProgress.State waiting = progressOf0("the wait for batch 0 of group world");
            assertThat(waiting).isEqualTo(new CallProgress.State(2, 1, waiting.last()));
            assertThat(waiting.isInside()).isTrue();
            c.agree("batch", "same").await();
            CallProgress.State inside = progressOf0("call 1 BARRIER \"last\"");
            assertThat(inside.begun()).isEqualTo(3);
            assertThat(inside.finished()).isEqualTo(2);
            c.barrier("last");
            return null;
        });
        CallProgress.State over =
                CallProgress.read(CallRecorder.progressFile(folder, 0)).orElseThrow();
        assertThat(over.isInside()).isFalse();
        assertThat(CallProgress.read(folder.resolve("none"))).isEmpty();
    }

    /** Rank 0's progress once it has begun what is named. */
    private CallProgress.State progressOf0(String what) {
        AtomicReference<CallProgress.State> state = new AtomicReference<>();
        Eventually.reach(what, () -> {
            state.set(CallProgress.read(CallRecorder.progressFile(folder, 0)).orElseThrow());
            return state.get().last().startsWith(what);
        });
        return state.get();
    }

    @Test
    void differentCallsAreShownSideBySide() throws Exception {
        Ranks.outcomes("local", 2, Ranks.DEADLINE, c -> {
            c.recorder().writeOnFailure(file(c.rank()));
            c.barrier("start");
            passOn(c, c.rank() == 0 ? HALO : new Call(Call.Kind.HALO_BACKWARD, "layer3", 4, DType.F32, 0xabc));
            return null;
        });
        assertThat(CallMerge.report(List.of(file(0), file(1))))
                .contains(
                        "ranks differ on call 1 of group world",
                        "ranks [0]: HALO_FORWARD \"layer3\"",
                        "ranks [1]: HALO_BACKWARD");
    }

    @Test
    void onRequestTheLatestCallsAreWritten() throws Exception {
        Ranks.run("local", 2, c -> {
            for (int step = 0; step < 300; step++) {
                c.barrier("step " + step);
            }
            c.recorder().write(file(c.rank()));
            return null;
        });
        List<String> lines = Files.readAllLines(file(1));
        assertThat(lines).hasSize(1 + 256);
        assertThat(lines.getFirst()).contains("\"reason\":null");
        assertThat(lines.get(1)).contains("\"label\":\"step 44\"");
        assertThat(lines.getLast()).contains("\"label\":\"step 299\"");
        assertThat(CallMerge.report(List.of(file(0), file(1)))).isEmpty();
    }

    @Test
    void aFileThatCannotBeWrittenHidesNoFailure() throws Exception {
        List<Object> outcomes = Ranks.outcomes("local", 2, Ranks.DEADLINE, c -> {
            c.recorder().writeOnFailure(folder.resolve("missing").resolve("calls"));
            if (c.rank() == 0) {
                c.abort("enough");
            }
            c.barrier("never");
            return null;
        });
        assertThat(outcomes).allMatch(end -> ((Exception) end).getMessage().equals("rank 0 failed: enough"));
    }

    @Test
    void flightRecordingsHoldExchangesAndWaits() throws Exception {
        try (Recording recording = new Recording()) {
            recording.enable("dev.kcp.Exchange");
            recording.enable("dev.kcp.Wait");
            recording.start();
            Ranks.run("local", 2, c -> {
                passOn(c, HALO);
                return null;
            });
            recording.stop();
            Path file = folder.resolve("test.jfr");
            recording.dump(file);
            List<RecordedEvent> exchanges = new ArrayList<>();
            List<RecordedEvent> waits = new ArrayList<>();
            for (RecordedEvent event : RecordingFile.readAllEvents(file)) {
                (event.getEventType().getName().equals("dev.kcp.Exchange") ? exchanges : waits).add(event);
            }
            assertThat(exchanges).hasSize(2).allSatisfy(event -> {
                assertThat(event.getString("label")).isEqualTo("layer3");
                assertThat(event.getString("kind")).isEqualTo("HALO_FORWARD");
                assertThat(event.getLong("sentBytes")).isEqualTo(24);
                assertThat(event.getLong("call")).isZero();
            });
            assertThat(waits).hasSize(2);
        }
    }
}
