package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How far results are from those of exact arithmetic, as docs/math.md tells users; one document of 65536 tokens. */
class AccuracyTest {
    private static final int TOKENS = 65536;
    private static final int CHANNELS = 8;

    @ParameterizedTest
    @CsvSource({
        // positive mean, policy, dweight off by, share of dx off by more than an ulp
        "false, BF16, 3e-4, 8e-4, 0.06, 0.08",
        "false, FP32, 3e-8, 1e-7, 1e-6, 1e-4",
        "true,  BF16, 1e-6, 8e-6, 0,    0",
        "true,  FP32, 1e-8, 1e-7, 0,    0"
    })
    void gradientsAreAsFarOffAsPolicyAndDataMakeThem(
            boolean positive, SiluGradPolicy policy, double least, double most, double dxLeast, double dxMost) {
        try (ConvCase in = data(positive);
                CpuConvEngine engine = new CpuConvEngine(1);
                Gradients got = new Gradients(
                        Tensor.zeros(DType.BF16, TOKENS, CHANNELS), Tensor.zeros(DType.F32, CHANNELS, 4), null)) {
            CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT.withPolicy(policy));
            conv.backward(in.x(), in.weight(), null, in.offsets(), in.dy(), got);
            ReferenceConv.Result exact = ReferenceConv.run(in, SiluGradPolicy.FP32);
            assertThat(Tolerance.relativeL2(got.dweight(), exact.dweight())).isBetween(least, most);
            assertThat((double) Tolerance.beyondAnUlp(got.dx(), exact.dx()) / (TOKENS * CHANNELS))
                    .isBetween(dxLeast, dxMost);
        }
    }

    @Test
    void yIsBeyondAnUlpInAFewOfAMillionElementsWhereTermsCancel() {
        try (ConvCase in = ConvCase.random(2, CHANNELS, TOKENS);
                CpuConvEngine engine = new CpuConvEngine(1);
                Tensor y = new CausalConv1d(engine, ConvOptions.DEFAULT)
                        .forward(in.x(), in.weight(), null, in.offsets(), null)) {
            ReferenceConv.Result exact = ReferenceConv.run(in, SiluGradPolicy.FP32);
            Tolerance.assertY(y, exact);
            assertThat(Tolerance.beyondAnUlp(y, exact.y())).isBetween(1L, 10L);
        }
    }

    /** Normal numbers, or x, taps and dy from 0 to 1. */
    private static ConvCase data(boolean positive) {
        if (!positive) {
            return ConvCase.random(0, CHANNELS, TOKENS);
        }
        Random random = new Random(1);
        return new ConvCase(
                new int[] {0, TOKENS},
                uniform(random, DType.BF16, TOKENS, CHANNELS),
                uniform(random, DType.F32, CHANNELS, 4),
                null,
                ConvCase.ints(0, TOKENS),
                uniform(random, DType.BF16, TOKENS, CHANNELS));
    }

    private static Tensor uniform(Random random, DType dtype, long... shape) {
        Tensor tensor = Tensor.zeros(dtype, shape);
        for (long r = 0; r < tensor.rows(); r++) {
            for (long c = 0; c < tensor.columns(); c++) {
                ConvCase.set(tensor, r, c, random.nextFloat());
            }
        }
        return tensor;
    }
}
