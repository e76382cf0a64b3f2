package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.CallProgress;
import dev.kcp.comm.CallRecorder;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class HangWatchTest {
    private static final long SECOND = 1_000_000_000;

    @TempDir
    private Path folder;

    private boolean isInside(int rank) {
        return CallProgress.read(CallRecorder.progressFile(folder, rank))
                .filter(CallProgress.State::isInside)
                .isPresent();
    }

    @Test
    void onlyTimeInsideACallCountsAndACompletedCallBeginsItAnew() throws Exception {
        HangWatch watch = new HangWatch(folder, 2, Duration.ofSeconds(3));
        long now = System.nanoTime();
        assertThat(watch.sees(now)).isFalse();
        List<Communicator> group = LocalCommunicator.group(2, Eventually.LIMIT);
        group.forEach(communicator -> communicator.recorder().keepIn(folder));
        // Nobody is inside a call, for as long as it takes.
        assertThat(watch.sees(now + 5 * SECOND)).isFalse();
        assertThat(watch.sees(now + 100 * SECOND)).isFalse();
        for (int round = 0; round < 2; round++) {
            long begin = now + (200 + 100 * round) * SECOND;
            String label = "round " + round;
            Thread first = Thread.ofPlatform().start(() -> group.get(0).barrier(label));
            Eventually.reach("rank 0 is inside a call", () -> isInside(0));
            assertThat(watch.sees(begin)).isFalse();
            assertThat(watch.sees(begin + 2 * SECOND)).isFalse();
            if (round == 1) {
                assertThat(watch.sees(begin + 3 * SECOND)).isTrue();
                assertThat(watch.inside()).containsExactly(0);
            }
            group.get(1).barrier(label);
            first.join();
            assertThat(watch.sees(begin + 50 * SECOND)).isFalse();
        }
        for (Communicator communicator : group) {
            Thread.ofPlatform().start(communicator::close);
        }
    }

    @Test
    void recordsOfAnEarlierJobAreRemovedAndOtherFilesLeft() throws IOException {
        Path stale = Files.createFile(CallRecorder.progressFile(folder, 1));
        Path other = Files.createFile(folder.resolve("notes"));
        HangWatch watch = new HangWatch(folder, 2, Duration.ofSeconds(3));
        assertThat(stale).doesNotExist();
        assertThat(other).exists();
        assertThat(watch.sees(System.nanoTime() + SECOND)).isFalse();
    }
}
