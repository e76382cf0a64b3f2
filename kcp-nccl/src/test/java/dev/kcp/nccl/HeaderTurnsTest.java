package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.BitSet;
import org.junit.jupiter.api.Test;

class HeaderTurnsTest {
    private static BitSet edges(int... peers) {
        BitSet set = new BitSet();
        for (int peer : peers) {
            set.set(peer);
        }
        return set;
    }

    @Test
    void everyEighthMessageOfAnEdgeWhateverTheOtherEdgesDo() {
        HeaderTurns turns = new HeaderTurns(3);
        assertThat(turns.next(edges(0, 2))).isEqualTo(edges(0, 2));
        for (int i = 1; i < HeaderTurns.MESSAGES_PER_HEADER; i++) {
            assertThat(turns.next(edges(0))).as("message %d", i).isEqualTo(edges());
        }
        assertThat(turns.next(edges(0, 2)))
                .as("the ninth of edge 0, the second of 2")
                .isEqualTo(edges(0));
    }

    @Test
    void theFirstMessageOfAnEdgeInAGraph() {
        HeaderTurns turns = new HeaderTurns(2);
        turns.next(edges(1));
        turns.beginCapture();
        assertThat(turns.next(edges(1))).isEqualTo(edges(1));
        assertThat(turns.next(edges(1))).isEqualTo(edges());
        turns.endCapture();
        assertThat(turns.next(edges(1))).isEqualTo(edges());
        turns.beginCapture();
        assertThat(turns.next(edges(1))).as("of another graph").isEqualTo(edges(1));
    }
}
