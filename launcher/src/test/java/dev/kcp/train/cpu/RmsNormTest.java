package dev.kcp.train.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.train.FiniteDifferences;
import dev.kcp.train.Floats;
import dev.kcp.train.ReferenceModel;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RmsNormTest {
    @ParameterizedTest
    @CsvSource({"1,8", "3,24", "5,64"})
    void forwardAndBackwardMatchTheFormula(int rows, int channels) {
        Random random = new Random(rows);
        try (Floats x = Floats.random(rows * channels, random);
                Floats gain = Floats.random(channels, random);
                Floats dy = Floats.random(rows * channels, random);
                Floats y = new Floats(rows * channels);
                Floats inverse = new Floats(rows);
                Floats dx = Floats.random(rows * channels, random);
                Floats dGain = Floats.random(channels, random)) {
            double[] dxBefore = dx.toDoubles();
            double[] dGainBefore = dGain.toDoubles();
            RmsNorm.forward(rows, channels, x.address(), gain.address(), y.address(), inverse.address());
            RmsNorm.backward(
                    rows,
                    channels,
                    x.address(),
                    gain.address(),
                    inverse.address(),
                    dy.address(),
                    dx.address(),
                    dGain.address());

            double[] weights = dy.toDoubles();
            double[] expected = ReferenceModel.norm(rows, channels, x.toDoubles(), gain.toDoubles());
            for (int i = 0; i < expected.length; i++) {
                assertThat((double) y.get(i)).isCloseTo(expected[i], within(1e-6 * (1 + Math.abs(expected[i]))));
            }
            double[] gainValues = gain.toDoubles();
            double[] xValues = x.toDoubles();
            FiniteDifferences.assertClose(
                    "dx",
                    minus(dx.toDoubles(), dxBefore),
                    FiniteDifferences.gradient(
                            xValues, v -> dot(weights, ReferenceModel.norm(rows, channels, v, gainValues))),
                    1e-5);
            FiniteDifferences.assertClose(
                    "dGain",
                    minus(dGain.toDoubles(), dGainBefore),
                    FiniteDifferences.gradient(
                            gainValues, v -> dot(weights, ReferenceModel.norm(rows, channels, xValues, v))),
                    1e-5);
        }
    }

    @Test
    void rowOfZerosStaysFinite() {
        try (Floats zeros = new Floats(8);
                Floats gain = Floats.of(1, 1, 1, 1, 1, 1, 1, 1);
                Floats y = Floats.of(9, 9, 9, 9, 9, 9, 9, 9);
                Floats inverse = new Floats(1)) {
            RmsNorm.forward(1, 8, zeros.address(), gain.address(), y.address(), inverse.address());
            assertThat(y.toDoubles()).containsOnly(0);
            assertThat(inverse.get(0)).isFinite();
        }
    }

    private static double dot(double[] a, double[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += a[i] * b[i];
        }
        return sum;
    }

    private static double[] minus(double[] a, double[] b) {
        double[] difference = new double[a.length];
        for (int i = 0; i < a.length; i++) {
            difference[i] = a[i] - b[i];
        }
        return difference;
    }
}
