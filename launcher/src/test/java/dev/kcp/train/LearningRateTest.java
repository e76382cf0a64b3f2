package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LearningRateTest {
    @Test
    void risesToThePeakAndFallsToATenth() {
        LearningRate rate = new LearningRate(0.01, 1000);
        assertThat(rate.at(1)).isCloseTo(0.01 / 50, within(1e-12));
        assertThat(rate.at(50)).isEqualTo(0.01);
        assertThat(rate.at(525)).isCloseTo(0.0055, within(1e-12));
        assertThat(rate.at(1000)).isCloseTo(0.001, within(1e-12));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 10, 100_000})
    void isAboveZeroAndAtMostThePeakAtEveryStep(int steps) {
        LearningRate rate = new LearningRate(0.01, steps);
        for (int step = 1; step <= steps; step++) {
            assertThat(rate.at(step)).isPositive().isLessThanOrEqualTo(0.01);
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, -1, Double.NaN, Double.POSITIVE_INFINITY})
    void otherPeaksAreRefused(double peak) {
        assertThatThrownBy(() -> new LearningRate(peak, 1)).isInstanceOf(IllegalArgumentException.class);
    }
}
