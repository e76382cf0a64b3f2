package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class CrossEntropyTest {
    private static final int VOCABULARY = ModelShape.VOCABULARY;

    @Test
    void lossAndGradientMatchTheFormula() {
        Shard shard = shard("hello \u00ff");
        int rows = shard.tokens();
        try (Floats logits = Floats.random(rows * VOCABULARY, new Random(1))) {
            double[] values = logits.toDoubles();
            double loss = CrossEntropy.lossAndGradient(shard, logits.address(), 0.25f);
            assertThat(loss).isCloseTo(loss(shard, values), within(1e-5));
            double[] expected = FiniteDifferences.gradient(values, v -> 0.25 * loss(shard, v));
            FiniteDifferences.assertClose("dLogits", logits.toDoubles(), expected, 1e-5);
        }
    }

    @Test
    void equalLogitsCostTheLogarithmOfTheVocabulary() {
        Shard shard = shard("ab");
        try (Floats logits = new Floats(shard.tokens() * VOCABULARY)) {
            assertThat(CrossEntropy.lossAndGradient(shard, logits.address(), 1) / shard.tokens())
                    .isCloseTo(Math.log(256), within(1e-6));
        }
    }

    @Test
    void hugeLogitsStayFinite() {
        Shard shard = shard("a");
        try (Floats logits = new Floats(shard.tokens() * VOCABULARY)) {
            logits.set('a', -1e30f);
            logits.set('b', 1e4f);
            double loss = CrossEntropy.lossAndGradient(shard, logits.address(), 1);
            assertThat(loss).isFinite().isGreaterThan(1e29);
            assertThat(logits.get('a')).isEqualTo(-1);
            assertThat(logits.get('b')).isCloseTo(1, within(1e-6f));
        }
    }

    @Test
    void shardWithoutTokensCostsNothing() {
        assertThat(CrossEntropy.lossAndGradient(new Shard(), 0, 1)).isZero();
    }

    static double loss(Shard shard, double[] logits) {
        double sum = 0;
        for (int row = 0; row < shard.tokens(); row++) {
            double[] own = Arrays.copyOfRange(logits, row * VOCABULARY, (row + 1) * VOCABULARY);
            double top = Arrays.stream(own).max().orElseThrow();
            double total = Arrays.stream(own).map(v -> Math.exp(v - top)).sum();
            sum += Math.log(total) + top - own[shard.target(row)];
        }
        return sum;
    }

    /** All tokens of one document on one rank. */
    static Shard shard(String text) {
        TextCorpus corpus = TextCorpus.of(text.getBytes(StandardCharsets.ISO_8859_1));
        PackedBatch batch = new Packer(corpus, corpus.bytes(0) + 1, 1).next();
        Shard shard = new Shard();
        shard.take(batch, Partition.of(Layout.CONTIGUOUS, batch.cuSeqlens(), 1, 1), 0);
        return shard;
    }
}
