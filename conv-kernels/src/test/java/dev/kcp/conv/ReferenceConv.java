package dev.kcp.conv;

import dev.kcp.tensor.BFloat16;

/**
 * The op in FP64 from its formulas, one document and one channel at a time; it shares nothing with the programs but the
 * rounding of the preactivation under policy BF16.
 */
public final class ReferenceConv {
    /**
     * y, dx {@code [S][C]}, each with the sum of |terms| of the sum behind it, which bounds what FP32 can lose to
     * cancellation and is infinite for dx that a rounding tie may change; dweight {@code [C][4]}; dbias {@code [C]}.
     */
    public record Result(
            double[][] y, double[][] pTerms, double[][] dx, double[][] dxTerms, double[][] dweight, double[] dbias) {}

    /** How near to a BF16 tie, in sums of |terms|, a preactivation may round either way. */
    private static final double TIE = 0x1p-20;

    private ReferenceConv() {}

    public static Result run(ConvCase in, SiluGradPolicy policy) {
        int rows = in.rows();
        int channels = in.channels();
        double[][] x = ConvCase.numbers(in.x());
        double[][] dy = ConvCase.numbers(in.dy());
        double[][] weight = ConvCase.numbers(in.weight());
        double[] bias = in.bias() == null ? new double[channels] : ConvCase.numbers(in.bias())[0];
        double[][] y = new double[rows][channels];
        double[][] pTerms = new double[rows][channels];
        double[][] g = new double[rows][channels];
        double[][] gError = new double[rows][channels];
        double[][] dx = new double[rows][channels];
        double[][] terms = new double[rows][channels];
        double[][] dweight = new double[channels][4];
        double[] dbias = new double[channels];
        for (int d = 0; d < in.documents(); d++) {
            int begin = in.begin(d);
            int end = in.begin(d + 1);
            for (int c = 0; c < channels; c++) {
                for (int t = begin; t < end; t++) {
                    double p = bias[c];
                    pTerms[t][c] = Math.abs(p);
                    for (int k = 0; k < 4; k++) {
                        double term = t - 3 + k >= begin ? weight[c][k] * x[t - 3 + k][c] : 0;
                        p += term;
                        pTerms[t][c] += Math.abs(term);
                    }
                    y[t][c] = p * sigmoid(p);
                    double q = policy == SiluGradPolicy.BF16 ? BFloat16.toFloat(BFloat16.fromDouble(p)) : p;
                    boolean tie = policy == SiluGradPolicy.BF16 && meetsTie(p, TIE * pTerms[t][c]);
                    gError[t][c] = tie ? Double.POSITIVE_INFINITY : 0;
                    g[t][c] = dy[t][c] * sigmoid(q) * (1 + q * sigmoid(-q));
                    dbias[c] += g[t][c];
                    for (int k = 0; k < 4; k++) {
                        dweight[c][k] += t - 3 + k >= begin ? g[t][c] * x[t - 3 + k][c] : 0;
                    }
                }
                for (int t = begin; t < end; t++) {
                    for (int k = 0; k < 4; k++) {
                        if (t + 3 - k < end) {
                            double term = weight[c][k] * g[t + 3 - k][c];
                            dx[t][c] += term;
                            terms[t][c] += Math.abs(term) + gError[t + 3 - k][c];
                        }
                    }
                }
            }
        }
        return new Result(y, pTerms, dx, terms, dweight, dbias);
    }

    /** Whether a preactivation this far off may round to another BF16 number. */
    private static boolean meetsTie(double p, double off) {
        return BFloat16.fromDouble(p - off) != BFloat16.fromDouble(p + off);
    }

    private static double sigmoid(double p) {
        return p >= 0 ? 1 / (1 + Math.exp(-p)) : Math.exp(p) / (1 + Math.exp(p));
    }
}
