package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class RecentRateTest {
    private static final long SECOND = 1_000_000_000L;

    @Test
    void fewStepsAreAllCounted() {
        RecentRate rate = new RecentRate(100, 5 * SECOND);
        assertThat(rate.after(9 * SECOND)).isEqualTo(25);
        assertThat(rate.after(10 * SECOND)).isEqualTo(40);
    }

    @Test
    void slowFirstStepIsForgottenAfterTwenty() {
        RecentRate rate = new RecentRate(100, 0);
        long now = 60 * SECOND;
        assertThat(rate.after(now)).isLessThan(2);
        for (int step = 2; step <= 20; step++) {
            now += SECOND;
            assertThat(rate.after(now)).isLessThan(30);
        }
        for (int step = 21; step <= 50; step++) {
            now += SECOND;
            assertThat(rate.after(now)).isEqualTo(100);
        }
    }
}
