package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

class HeldOutputTest {
    private final HeldOutput held = new HeldOutput();

    /** Whether any of so many looks saw the output held. */
    private boolean seesIn(int looks, Long... reads) {
        boolean seen = false;
        for (int look = 0; look < looks; look++) {
            seen |= held.sees(List.of(reads));
        }
        return seen;
    }

    @Test
    void pumpsThatStayInTheirReadsForAllLooksAreHeld() {
        assertThat(seesIn(HeldOutput.LOOKS, 7L, 9L)).isFalse();
        assertThat(seesIn(1, 7L, 9L)).isTrue();
    }

    @Test
    void onePumpThatMovesBeginsTheCountAnew() {
        assertThat(seesIn(HeldOutput.LOOKS, 7L, 9L)).isFalse();
        assertThat(seesIn(HeldOutput.LOOKS, 7L, 10L)).isFalse();
        assertThat(seesIn(HeldOutput.LOOKS, 7L)).isFalse();
        assertThat(seesIn(1, 7L)).isTrue();
    }

    @Test
    void pumpThatWaitsForASlowReaderIsNotHeldUpByTheRank() {
        assertThat(seesIn(3 * HeldOutput.LOOKS, 7L, OutputPump.PASSING_ON)).isFalse();
    }
}
