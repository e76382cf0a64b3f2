package dev.kcp.train;

import dev.kcp.core.CuSeqlens;
import dev.kcp.train.ParameterTable.LayerParameters;

/** The model's loss in FP64 from its formulas alone, without BF16 borders, shards or kernels. */
public final class ReferenceModel {
    private static final int VOCABULARY = ModelShape.VOCABULARY;

    private final ParameterTable table;
    private final PackedBatch batch;
    private final int channels;

    ReferenceModel(ParameterTable table, PackedBatch batch) {
        this.table = table;
        this.batch = batch;
        this.channels = table.shape().channels();
    }

    /** Mean loss of the batch for parameter values in the table's order. */
    double loss(double[] values) {
        int tokens = batch.tokens();
        double[] stream = new double[tokens * channels];
        for (int t = 0; t < tokens; t++) {
            int from = (int) table.embedding().offset() + Byte.toUnsignedInt(batch.inputs()[t]) * channels;
            System.arraycopy(values, from, stream, t * channels, channels);
        }
        for (int layer = 0; layer < table.shape().layers(); layer++) {
            LayerParameters parameters = table.layer(layer);
            double[] normed = norm(tokens, channels, stream, of(values, parameters.gain()));
            double[] projected = times(normed, of(values, parameters.w1()));
            double[] convolved = convolve(projected, of(values, parameters.taps()), of(values, parameters.bias()));
            double[] added = times(convolved, of(values, parameters.w2()));
            for (int i = 0; i < stream.length; i++) {
                stream[i] += added[i];
            }
        }
        double[] normed = norm(tokens, channels, stream, of(values, table.finalGain()));
        return crossEntropy(normed, of(values, table.embedding())) / tokens;
    }

    private double[] times(double[] rows, double[] matrix) {
        double[] out = new double[rows.length];
        for (int t = 0; t < rows.length / channels; t++) {
            for (int i = 0; i < channels; i++) {
                for (int o = 0; o < channels; o++) {
                    out[t * channels + o] += rows[t * channels + i] * matrix[i * channels + o];
                }
            }
        }
        return out;
    }

    private double[] convolve(double[] x, double[] taps, double[] bias) {
        double[] y = new double[x.length];
        CuSeqlens cuSeqlens = batch.cuSeqlens();
        for (int document = 0; document < cuSeqlens.documents(); document++) {
            for (int t = cuSeqlens.begin(document); t < cuSeqlens.end(document); t++) {
                for (int c = 0; c < channels; c++) {
                    double p = bias[c];
                    for (int k = 0; k < ModelShape.TAPS; k++) {
                        int source = t - 3 + k;
                        p += source < cuSeqlens.begin(document)
                                ? 0
                                : taps[c * ModelShape.TAPS + k] * x[source * channels + c];
                    }
                    y[t * channels + c] = p / (1 + Math.exp(-p));
                }
            }
        }
        return y;
    }

    /** Root-mean-square norm of each row. */
    public static double[] norm(int rows, int channels, double[] x, double[] gain) {
        double[] y = new double[rows * channels];
        for (int row = 0; row < rows; row++) {
            double squares = 0;
            for (int i = 0; i < channels; i++) {
                squares += x[row * channels + i] * x[row * channels + i];
            }
            double r = 1 / Math.sqrt(squares / channels + 1e-6);
            for (int i = 0; i < channels; i++) {
                y[row * channels + i] = gain[i] * x[row * channels + i] * r;
            }
        }
        return y;
    }

    private double crossEntropy(double[] normed, double[] vectors) {
        double sum = 0;
        for (int t = 0; t < batch.tokens(); t++) {
            double total = 0;
            double ofTarget = 0;
            for (int token = 0; token < VOCABULARY; token++) {
                double logit = 0;
                for (int c = 0; c < channels; c++) {
                    logit += normed[t * channels + c] * vectors[token * channels + c];
                }
                total += Math.exp(logit);
                ofTarget = token == Byte.toUnsignedInt(batch.targets()[t]) ? logit : ofTarget;
            }
            sum += Math.log(total) - ofTarget;
        }
        return sum;
    }

    private static double[] of(double[] values, Parameter parameter) {
        double[] own = new double[(int) parameter.elements()];
        System.arraycopy(values, (int) parameter.offset(), own, 0, own.length);
        return own;
    }
}
