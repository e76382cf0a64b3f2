package dev.kcp.train;

import dev.kcp.tensor.HostMemory;
import java.lang.foreign.ValueLayout;
import java.util.Random;

/** First values of the parameters, the same for the same seed on every rank and machine. */
final class Initializer {
    private Initializer() {}

    /**
     * Fills a buffer so that every stage starts with values near 1, while logits start near 0: an untrained model then
     * predicts all bytes alike and its loss is close to ln 256.
     */
    static void fill(ParameterBuffer values, long seed) {
        ParameterTable table = values.table();
        int channels = table.shape().channels();
        double unit = 1 / Math.sqrt(channels);
        Random random = new Random(seed);
        normal(values, table.embedding(), unit, random);
        // The input token's own logit is |embedding row| * sqrt(channels) * gain, about 1 with this gain.
        constant(values, table.finalGain(), (float) unit);
        for (int layer = 0; layer < table.shape().layers(); layer++) {
            ParameterTable.LayerParameters parameters = table.layer(layer);
            constant(values, parameters.gain(), 1);
            normal(values, parameters.w1(), unit, random);
            normal(values, parameters.taps(), 1 / Math.sqrt(ModelShape.TAPS), random);
            constant(values, parameters.bias(), 0);
            // All layers together add about as much to the residual stream as the embedding brought.
            normal(
                    values,
                    parameters.w2(),
                    2 * unit / Math.sqrt(channels * (double) table.shape().layers()),
                    random);
        }
    }

    private static void normal(ParameterBuffer values, Parameter parameter, double deviation, Random random) {
        for (long i = 0; i < parameter.elements(); i++) {
            set(values, parameter, i, (float) (deviation * random.nextGaussian()));
        }
    }

    private static void constant(ParameterBuffer values, Parameter parameter, float value) {
        for (long i = 0; i < parameter.elements(); i++) {
            set(values, parameter, i, value);
        }
    }

    private static void set(ParameterBuffer values, Parameter parameter, long element, float value) {
        HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, values.address(parameter) + element * Float.BYTES, value);
    }
}
