package dev.kcp.train.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.train.FiniteDifferences;
import dev.kcp.train.Floats;
import dev.kcp.train.ModelShape;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class CrossEntropyTest {
    private static final int VOCABULARY = ModelShape.VOCABULARY;
    private static final long ROW_BYTES = 4L * VOCABULARY;

    @Test
    void lossAndGradientMatchTheFormula() {
        int[] targets = {'h', 0, 255, 'h'};
        try (Floats logits = Floats.random(targets.length * VOCABULARY, new Random(1))) {
            double[] values = logits.toDoubles();
            double sum = 0;
            for (int row = 0; row < targets.length; row++) {
                sum += CrossEntropy.lossAndGradient(logits.address() + row * ROW_BYTES, targets[row], 0.25f);
            }
            assertThat(sum).isCloseTo(loss(targets, values), within(1e-5));
            double[] expected = FiniteDifferences.gradient(values, v -> 0.25 * loss(targets, v));
            FiniteDifferences.assertClose("dLogits", logits.toDoubles(), expected, 1e-5);
        }
    }

    @Test
    void equalLogitsCostTheLogarithmOfTheVocabulary() {
        try (Floats logits = new Floats(VOCABULARY)) {
            assertThat(CrossEntropy.lossAndGradient(logits.address(), 'a', 1)).isCloseTo(Math.log(256), within(1e-6));
        }
    }

    @Test
    void hugeLogitsStayFinite() {
        try (Floats logits = new Floats(VOCABULARY)) {
            logits.set('a', -1e30f);
            logits.set('b', 1e4f);
            double loss = CrossEntropy.lossAndGradient(logits.address(), 'a', 1);
            assertThat(loss).isFinite().isGreaterThan(1e29);
            assertThat(logits.get('a')).isEqualTo(-1);
            assertThat(logits.get('b')).isCloseTo(1, within(1e-6f));
        }
    }

    private static double loss(int[] targets, double[] logits) {
        double sum = 0;
        for (int row = 0; row < targets.length; row++) {
            double[] own = Arrays.copyOfRange(logits, row * VOCABULARY, (row + 1) * VOCABULARY);
            double top = Arrays.stream(own).max().orElseThrow();
            double total = Arrays.stream(own).map(v -> Math.exp(v - top)).sum();
            sum += Math.log(total) + top - own[targets[row]];
        }
        return sum;
    }
}
