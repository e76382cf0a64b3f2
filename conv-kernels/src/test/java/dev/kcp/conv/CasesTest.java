package dev.kcp.conv;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.StridedView;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Reports from users of related software as tests of the single-rank op; numbers are those of the list. Held by
 * {@link CausalConv1dGeometryTest}: 8 emptyDocumentsBetweenOthers, 9 oneDocumentAroundTileEdges, 19
 * slackRowsBecomeZerosInReusedBuffers, 22 slicesOfAFusedProjection, 28 buffersOffAnyAlignmentButTheElements, 29
 * moreChannelsThanAGridAxisHolds, 30 seventyThousandDocumentsOfOneToken and seventyThousandRowsInOneDocument, 32
 * rowsFurtherApartThanThirtyTwoBitsCanCount, 40 productsAreNotRoundedBeforeTheSum, 43 and 44 by the tests of offsets. By
 * {@link ConvChecksTest}: 24 and 25. By {@link CausalConv1dProperties}: 14 and 20. 33 asks for channels-first rows, which no
 * tensor here can express. The GPU's share is in {@code CudaCasesTest}; 7, 10, 13, 15, 35, 38 and 42 need ranks or history
 * and are kcp-core's.
 */
class CasesTest {
    private static final CpuConvEngine ENGINE = new CpuConvEngine(2, false);

    @AfterAll
    static void closeEngine() {
        ENGINE.close();
    }

    private static CausalConv1d conv() {
        return new CausalConv1d(ENGINE, ConvOptions.DEFAULT);
    }

    /** Empty buffers share an address, here none at all. */
    @Test
    void case6NoTokensAtNoAddress() {
        Memory nowhere = Memory.borrow(Device.CPU, 0, 0);
        Tensor empty = Tensor.over(nowhere, DType.BF16, 0, 256);
        try (ConvCase in = ConvCase.random(6, 256, DType.F32, DType.F32);
                Gradients out = new Gradients(empty, Tensor.zeros(DType.F32, 256, 4), Tensor.zeros(DType.F32, 256))) {
            out.dweight().segment().fill((byte) 0xFF);
            out.dbias().segment().fill((byte) 0xFF);
            assertThat(conv().forward(empty, in.weight(), in.bias(), in.offsets(), empty))
                    .isSameAs(empty);
            conv().backward(empty, in.weight(), in.bias(), in.offsets(), empty, out);
            assertThat(out.dweight().segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
            assertThat(out.dbias().segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
        }
    }

    @Test
    void case8EmptyDocumentsDoNotWait() {
        try (ConvCase in = ConvCase.random(8, 64, 0, 5, 0, 0, 7, 0);
                Tensor y = conv().forward(in.x(), in.weight(), null, in.offsets(), null)) {
            Tolerance.assertY(y, ReferenceConv.run(in, SiluGradPolicy.BF16));
        }
    }

    @Test
    void case18RowsBeyondTheOffsets() {
        try (ConvCase in = ConvCase.random(18, 256, 946);
                Tensor y = Tensor.zeros(DType.BF16, 946, 256);
                Gradients out = Gradients.allocate(in.x(), in.weight(), null)) {
            y.segment().fill((byte) 0xFF);
            out.dx().segment().fill((byte) 0xFF);
            refusedBothWays(in, y, out, "end=944 S=946", 0, 900, 944);
            refusedBothWays(in, y, out, "end=947 S=946", 0, 947);
            refusedBothWays(in, y, out, "cu_seqlens[0]=1", 1, 946);
            refusedBothWays(in, y, out, "cu_seqlens[1]=900 cu_seqlens[2]=899", 0, 900, 899, 946);
            assertThat(y.segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0xFF);
            assertThat(out.dx().segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0xFF);
        }
    }

    private static void refusedBothWays(ConvCase in, Tensor y, Gradients out, String ending, int... offsets) {
        try (Tensor cuSeqlens = ConvCase.ints(offsets)) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> conv().forward(in.x(), in.weight(), null, cuSeqlens, y))
                    .withMessageEndingWith(ending);
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> conv().backward(in.x(), in.weight(), null, cuSeqlens, in.dy(), out))
                    .withMessageEndingWith(ending);
        }
    }

    @Test
    void case23ABatchOfTwoIsRefusedAndFlattenedItIsTaken() {
        try (ConvCase in = ConvCase.random(23, 768, 1024, 1024);
                Gradients flat = Gradients.allocate(in.x(), in.weight(), null);
                Gradients one = Gradients.allocate(in.x(), in.weight(), null)) {
            Memory memory = Memory.borrow(Device.CPU, in.x().address(), in.x().elements() * 2);
            Tensor two = Tensor.over(memory, DType.BF16, 2, 1024, 768);
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> conv().backward(two, in.weight(), null, in.offsets(), null, flat))
                    .withMessageEndingWith("shape=[2, 1024, 768]");
            Tensor batched = Tensor.over(memory, DType.BF16, 1, 2048, 768);
            conv().backward(in.x(), in.weight(), null, in.offsets(), in.dy(), flat);
            conv().backward(batched, in.weight(), null, in.offsets(), in.dy(), one);
            assertSameBits("dweight", one.dweight(), flat.dweight());
            assertSameBits("dx", one.dx(), flat.dx());
        }
    }

    /** The middle third of every row of a fused projection, with and without saving for backward. */
    @Test
    void case26EvaluationAndTrainingOnTheSameView() {
        int rows = 70;
        int channels = 24;
        try (ConvCase in = ConvCase.random(26, channels, 30, 40);
                Memory wide = Memory.allocateHost(rows * 3L * channels * 2)) {
            Tensor view = Tensor.pitched(wide, channels * 2L, DType.BF16, rows, channels, 3L * channels);
            for (int r = 0; r < rows; r++) {
                HostMemory.copy(in.x().rowAddress(r), view.rowAddress(r), channels * 2L);
            }
            CausalConv1dFunction function = new CausalConv1dFunction(conv());
            StridedView dy = new StridedView(
                    Memory.borrow(Device.CPU, in.dy().address(), in.dy().elements() * 2),
                    0,
                    DType.BF16,
                    rows,
                    channels,
                    channels,
                    1);
            try (Tensor evaluated = conv().forward(view, in.weight(), null, in.offsets(), null);
                    Gradients dense = Gradients.allocate(in.x(), in.weight(), null)) {
                CausalConv1dFunction.Output trained = function.forward(view, in.weight(), null, in.offsets());
                try (Tensor y = trained.y();
                        Gradients got = function.backward(trained.saved(), dy)) {
                    assertSameBits("y", y, evaluated);
                    conv().backward(in.x(), in.weight(), null, in.offsets(), in.dy(), dense);
                    assertSameBits("dx", got.dx(), dense.dx());
                    assertSameBits("dweight", got.dweight(), dense.dweight());
                }
            }
        }
    }

    /** One row, or one group of channels: strides that nothing depends on may be anything. */
    @ParameterizedTest
    @ValueSource(ints = {8, 9, 17, 1000})
    void case27AmbiguousStrides(int pitch) {
        try (ConvCase in = ConvCase.random(27, 8, 1);
                Gradients want = Gradients.allocate(in.x(), in.weight(), null);
                Gradients got = Gradients.allocate(in.x(), in.weight(), null);
                Tensor y = conv().forward(in.x(), in.weight(), null, in.offsets(), null)) {
            Memory memory = Memory.borrow(Device.CPU, in.x().address(), 16);
            Tensor one = Tensor.pitched(memory, 0, DType.BF16, 1, 8, pitch);
            try (Tensor yOfOne = conv().forward(one, in.weight(), null, in.offsets(), null)) {
                assertSameBits("y", yOfOne, y);
            }
            Tolerance.assertY(y, ReferenceConv.run(in, SiluGradPolicy.BF16));
            conv().backward(in.x(), in.weight(), null, in.offsets(), in.dy(), want);
            conv().backward(one, in.weight(), null, in.offsets(), in.dy(), got);
            assertSameBits("dx", got.dx(), want.dx());
            assertSameBits("dweight", got.dweight(), want.dweight());
        }
    }

    /**
     * With taps of zero the preactivation is 0 and silu' there one half, so that x = 1 and dy = 2 give a dweight of exactly
     * 1 per token.
     */
    private static ConvCase ones(int tokens) {
        ConvCase in = new ConvCase(
                new int[] {0, tokens},
                Tensor.zeros(DType.BF16, tokens, 8),
                Tensor.zeros(DType.BF16, 8, 4),
                null,
                ConvCase.ints(0, tokens),
                Tensor.zeros(DType.BF16, tokens, 8));
        for (int t = 0; t < tokens; t++) {
            for (int c = 0; c < 8; c++) {
                ConvCase.set(in.x(), t, c, 1);
                ConvCase.set(in.dy(), t, c, 2);
            }
        }
        return in;
    }

    /** 256 micro-batches of dweight 1 on top of 256; sums in BF16 would stay at 256. */
    @Test
    void case41MicroBatchesAddUpInFp32() {
        float accumulated = 256;
        try (ConvCase in = ones(1);
                Tensor dweight = Tensor.zeros(DType.F32, 8, 4)) {
            for (int batch = 0; batch < 256; batch++) {
                conv().backward(in.x(), in.weight(), null, in.offsets(), in.dy(), new Gradients(null, dweight, null));
                accumulated += (float) ConvCase.get(dweight, 5, 3);
            }
        }
        assertThat(accumulated).isEqualTo(512);
    }

    /** The same inside one call: BF16 asked for is one rounding at the end. */
    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void case41SumsOfOneCallAreRoundedOnce(SiluGradPolicy policy) {
        for (int[] tokensAndWanted : new int[][] {{512, 512}, {515, 516}, {1000, 1000}, {1003, 1004}}) {
            try (ConvCase in = ones(tokensAndWanted[0]);
                    Tensor dweight = Tensor.zeros(DType.BF16, 8, 4)) {
                new CausalConv1d(ENGINE, ConvOptions.DEFAULT.withPolicy(policy))
                        .backward(in.x(), in.weight(), null, in.offsets(), in.dy(), new Gradients(null, dweight, null));
                assertThat(ConvCase.get(dweight, 5, 3)).isEqualTo(tokensAndWanted[1]);
            }
        }
    }
}
