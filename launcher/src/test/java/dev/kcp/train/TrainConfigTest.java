package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.core.Layout;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TrainConfigTest {
    private static final ModelShape SHAPE = new ModelShape(1, 8);

    @ParameterizedTest
    @ValueSource(ints = {-8, 0, 4, 12, 100})
    void channelsOtherThanMultiplesOfEightAreRefused(int channels) {
        assertThatThrownBy(() -> new ModelShape(1, channels))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("channels=" + channels);
    }

    @Test
    void valuesThatCannotTrainAreRefused() {
        refused("layers=0", () -> new ModelShape(0, 8));
        refused("tokens=0 steps=1", () -> config(0, 1, 0.1, 0.1, 1, 1));
        refused("tokens=1 steps=0", () -> config(1, 0, 0.1, 0.1, 1, 1));
        refused("learningRate=0.0", () -> config(1, 1, 0, 0.1, 1, 1));
        refused("learningRate=NaN", () -> config(1, 1, Double.NaN, 0.1, 1, 1));
        refused("weightDecay=-1.0", () -> config(1, 1, 0.1, -1, 1, 1));
        refused("weightDecay=10.0", () -> config(1, 1, 0.1, 10, 1, 1));
        refused("clipNorm=0.0", () -> config(1, 1, 0.1, 0.1, 0, 1));
        refused("align=0", () -> config(1, 1, 0.1, 0.1, 1, 0));
    }

    @Test
    void sameBitsNeedCutsBetweenLeaves() {
        refused("align=96", () -> config(1, 1, 0.1, 0.1, 1, 96, true));
        refused("align=1", () -> config(1, 1, 0.1, 0.1, 1, 1, true));
        assertThat(config(1, 1, 0.1, 0.1, 1, 192, true).sameBits()).isTrue();
    }

    private static void refused(String values, org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
        assertThatThrownBy(call).isInstanceOf(IllegalArgumentException.class).hasMessageContaining(values);
    }

    private static TrainConfig config(
            int tokens, int steps, double learningRate, double weightDecay, double clipNorm, int align) {
        return config(tokens, steps, learningRate, weightDecay, clipNorm, align, false);
    }

    private static TrainConfig config(
            int tokens,
            int steps,
            double learningRate,
            double weightDecay,
            double clipNorm,
            int align,
            boolean sameBits) {
        return new TrainConfig(
                SHAPE, tokens, steps, 1, learningRate, weightDecay, clipNorm, Layout.CONTIGUOUS, align, true, sameBits);
    }
}
