package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AdamWTest {
    private static final double WEIGHT_DECAY = 0.1;
    private final ParameterTable table = new ParameterTable(new ModelShape(2, 8));

    @ParameterizedTest
    @ValueSource(doubles = {1e30, 0.5})
    void stepsMatchTheScalarFormula(double clipNorm) {
        Random random = new Random(3);
        int elements = (int) table.bufferElements();
        double[] expected = new double[elements];
        double[] first = new double[elements];
        double[] second = new double[elements];
        try (TrainEngine engine = new CpuTrainEngine(1);
                Weights weights = new Weights(engine, table);
                ParameterBuffer gradients = new ParameterBuffer(table);
                AdamW optimizer = new AdamW(engine, table, WEIGHT_DECAY, clipNorm)) {
            ParameterBuffer values = weights.values();
            Initializer.fill(values, 1);
            for (int i = 0; i < elements; i++) {
                expected[i] = get(values, i);
            }
            for (int step = 1; step <= 5; step++) {
                double learningRate = 0.01 / step;
                double squares = 0;
                for (Parameter parameter : table.all()) {
                    for (int i = (int) parameter.offset(); i < parameter.offset() + parameter.elements(); i++) {
                        float gradient = (float) (random.nextGaussian() * 0.1);
                        set(gradients, i, gradient);
                        squares += (double) gradient * gradient;
                    }
                }
                double norm = step(optimizer, step, weights, gradients, learningRate);
                assertThat(norm).isCloseTo(Math.sqrt(squares), within(1e-9));
                double scale = Math.min(1, clipNorm / norm);
                for (Parameter parameter : table.all()) {
                    for (int i = (int) parameter.offset(); i < parameter.offset() + parameter.elements(); i++) {
                        double g = get(gradients, i) * scale;
                        first[i] = 0.9 * first[i] + 0.1 * g;
                        second[i] = 0.98 * second[i] + 0.02 * g * g;
                        double m = first[i] / (1 - Math.pow(0.9, step));
                        double v = second[i] / (1 - Math.pow(0.98, step));
                        double decay = parameter.decayed() ? learningRate * WEIGHT_DECAY * expected[i] : 0;
                        expected[i] -= decay + learningRate * m / (Math.sqrt(v) + 1e-8);
                        assertThat((double) get(values, i))
                                .as("%s step %s", parameter.name(), step)
                                .isCloseTo(expected[i], within(2e-5));
                    }
                }
            }
        }
    }

    @Test
    void onlyMatricesAreDecayed() {
        assertThat(table.all().stream().filter(Parameter::decayed).map(Parameter::name))
                .containsExactly("embedding", "layer0.w1", "layer0.w2", "layer1.w1", "layer1.w2");
    }

    @Test
    void gradientThatIsNotFiniteChangesNothing() {
        try (TrainEngine engine = new CpuTrainEngine(1);
                Weights weights = new Weights(engine, table);
                ParameterBuffer gradients = new ParameterBuffer(table);
                AdamW optimizer = new AdamW(engine, table, WEIGHT_DECAY, 1)) {
            ParameterBuffer values = weights.values();
            Initializer.fill(values, 1);
            float before = get(values, 5);
            set(gradients, 7, Float.NaN);
            assertThat(step(optimizer, 1, weights, gradients, 0.1)).isNaN();
            set(gradients, 7, Float.POSITIVE_INFINITY);
            assertThat(step(optimizer, 1, weights, gradients, 0.1)).isInfinite();
            assertThat(get(values, 5)).isEqualTo(before);
        }
    }

    @Test
    void gradientOfZerosOnlyDecays() {
        try (TrainEngine engine = new CpuTrainEngine(1);
                Weights weights = new Weights(engine, table);
                ParameterBuffer gradients = new ParameterBuffer(table);
                AdamW optimizer = new AdamW(engine, table, 0.5, 1)) {
            ParameterBuffer values = weights.values();
            Initializer.fill(values, 1);
            float before = get(values, 5);
            step(optimizer, 1, weights, gradients, 0.1);
            assertThat((double) get(values, 5)).isCloseTo(0.95 * before, within(1e-7));
        }
    }

    private static double step(
            AdamW optimizer, int step, Weights weights, ParameterBuffer gradients, double learningRate) {
        try (Tensor norm = Tensor.zeros(DType.F64, 1)) {
            optimizer.prepare(step, learningRate);
            optimizer.step(weights, gradients, norm);
            return norm.segment().get(ValueLayout.JAVA_DOUBLE, 0);
        }
    }

    private static float get(ParameterBuffer buffer, int element) {
        return HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, buffer.address() + 4L * element);
    }

    private static void set(ParameterBuffer buffer, int element, float value) {
        HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, buffer.address() + 4L * element, value);
    }
}
