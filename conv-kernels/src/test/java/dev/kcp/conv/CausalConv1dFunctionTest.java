package dev.kcp.conv;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.StridedView;
import dev.kcp.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Gradients of any layout and type are worth their dense BF16 copy. */
class CausalConv1dFunctionTest {
    private static final int ROWS = 12;
    private static final int CHANNELS = 16;

    private final CpuConvEngine engine = new CpuConvEngine(1);
    private final CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
    private final CausalConv1dFunction function = new CausalConv1dFunction(conv);
    private final ConvCase in = ConvCase.random(1, CHANNELS, DType.BF16, DType.F32, 5, 7);

    @AfterEach
    void close() {
        in.close();
        engine.close();
    }

    private void assertSameAsDense(StridedView view, Tensor dense) {
        CausalConv1dFunction.Output forward = function.forward(in.x(), in.weight(), in.bias(), in.offsets());
        try (Tensor y = forward.y();
                Gradients got = function.backward(forward.saved(), view);
                Gradients expected = Gradients.allocate(in.x(), in.weight(), in.bias())) {
            conv.backward(in.x(), in.weight(), in.bias(), in.offsets(), dense, expected);
            assertThat(y.rows()).isEqualTo(ROWS);
            assertSameBits("dx", got.dx(), expected.dx());
            assertSameBits("dweight", got.dweight(), expected.dweight());
            assertSameBits("dbias", got.dbias(), expected.dbias());
            assertThat(got.dweight().dtype()).isEqualTo(DType.BF16);
            assertThat(got.dbias().dtype()).isEqualTo(DType.F32);
        }
    }

    private static Memory memoryOf(Tensor tensor) {
        return Memory.borrow(
                Device.CPU, tensor.address(), tensor.elements() * tensor.dtype().bytes());
    }

    @Test
    void transposed() {
        try (Tensor turned = Tensor.zeros(DType.BF16, CHANNELS, ROWS)) {
            for (int r = 0; r < ROWS; r++) {
                for (int c = 0; c < CHANNELS; c++) {
                    ConvCase.set(turned, c, r, (float) ConvCase.get(in.dy(), r, c));
                }
            }
            assertSameAsDense(new StridedView(memoryOf(turned), 0, DType.BF16, ROWS, CHANNELS, 1, ROWS), in.dy());
        }
    }

    @Test
    void singlePrecision() {
        try (Tensor single = Tensor.zeros(DType.F32, ROWS, CHANNELS)) {
            for (int r = 0; r < ROWS; r++) {
                for (int c = 0; c < CHANNELS; c++) {
                    ConvCase.set(single, r, c, (float) ConvCase.get(in.dy(), r, c));
                }
            }
            assertSameAsDense(new StridedView(memoryOf(single), 0, DType.F32, ROWS, CHANNELS, CHANNELS, 1), in.dy());
        }
    }

    @Test
    void expandedFromOneNumber() {
        try (Tensor one = Tensor.zeros(DType.F32, 1);
                Tensor ones = Tensor.zeros(DType.BF16, ROWS, CHANNELS)) {
            ConvCase.set(one, 0, 0, 1f);
            for (int r = 0; r < ROWS; r++) {
                for (int c = 0; c < CHANNELS; c++) {
                    ConvCase.set(ones, r, c, 1f);
                }
            }
            assertSameAsDense(new StridedView(memoryOf(one), 0, DType.F32, ROWS, CHANNELS, 0, 0), ones);
        }
    }

    @Test
    void absentGradientCountsAsZeros() {
        try (Tensor zeros = Tensor.zeros(DType.BF16, ROWS, CHANNELS)) {
            assertSameAsDense(null, zeros);
        }
    }

    @Test
    void viewsThatReachPastTheirMemory() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new StridedView(memoryOf(in.dy()), 0, DType.F32, ROWS, CHANNELS, CHANNELS, 1))
                .withMessageContaining("memoryBytes=" + ROWS * CHANNELS * 2);
    }
}
