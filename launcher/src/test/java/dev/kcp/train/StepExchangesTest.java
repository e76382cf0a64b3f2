package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.core.ExchangeCounts;
import java.util.List;
import org.junit.jupiter.api.Test;

class StepExchangesTest {
    private static ExchangeCounts counts(long forward, long backward) {
        return new ExchangeCounts(forward, 0, backward);
    }

    @Test
    void replayedStepsMakeTheExchangesOfTheLastThatWasCalled() {
        StepExchanges exchanges = new StepExchanges();
        exchanges.stepDone(List.of(counts(1, 1), counts(1, 1)));
        exchanges.stepDone(List.of(counts(2, 2), counts(2, 2)));
        assertThat(exchanges.total()).containsExactly(counts(2, 2), counts(2, 2));
        // Two micro-steps, called once and replayed twice.
        for (int step = 0; step < 3; step++) {
            exchanges.stepDone(List.of(counts(4, 4), counts(4, 3)));
        }
        assertThat(exchanges.total()).containsExactly(counts(8, 8), counts(8, 5));
    }

    @Test
    void withoutAStepThereIsNone() {
        assertThat(new StepExchanges().total()).isEmpty();
    }
}
