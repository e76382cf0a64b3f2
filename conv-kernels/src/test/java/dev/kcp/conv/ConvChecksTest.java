package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Each refusal comes before any effect and ends in what was found. */
class ConvChecksTest {
    private final CpuConvEngine engine = new CpuConvEngine(1);
    private final CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
    private final ConvCase in = ConvCase.random(1, 16, DType.F32, DType.F32, 5, 7);

    @AfterEach
    void close() {
        in.close();
        engine.close();
    }

    private void refused(Runnable call, String... parts) {
        org.assertj.core.api.ThrowableAssertAlternative<IllegalArgumentException> thrown =
                assertThatIllegalArgumentException().isThrownBy(call::run);
        for (String part : parts) {
            thrown.withMessageContaining(part);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 7, 12, 100, 4097})
    void channelsThatAreNoMultipleOfEight(int channels) {
        Tensor x = Tensor.zeros(DType.BF16, 2, channels);
        Tensor weight = Tensor.zeros(DType.F32, channels, 4);
        refused(
                () -> conv.forward(x, weight, null, ConvCase.ints(0, 2), null),
                "x ",
                "multiples of 8",
                "C=" + channels);
    }

    @Test
    void pitchThatBreaksSixteenByteAccesses() {
        Memory memory = Memory.allocateHost(10_000);
        Tensor x = Tensor.pitched(memory, 0, DType.BF16, 12, 16, 17);
        refused(() -> conv.forward(x, in.weight(), null, in.offsets(), null), "x ", "8 elements", "pitch=17");
    }

    @Test
    void aBatchDimensionAboveOne() {
        Tensor x = Tensor.zeros(DType.BF16, 2, 6, 16);
        refused(() -> conv.forward(x, in.weight(), null, in.offsets(), null), "[1, S, C]", "shape=[2, 6, 16]");
    }

    @Test
    void typesThatAreNotTaken() {
        Tensor x = Tensor.zeros(DType.F32, 12, 16);
        refused(() -> conv.forward(x, in.weight(), null, in.offsets(), null), "x must be BF16", "dtype=F32");
        Tensor weight = Tensor.zeros(DType.F64, 16, 4);
        refused(() -> conv.forward(in.x(), weight, null, in.offsets(), null), "weight", "dtype=F64");
    }

    @Test
    void widthsOtherThanFour() {
        Tensor weight = Tensor.zeros(DType.F32, 16, 3);
        refused(() -> conv.forward(in.x(), weight, null, in.offsets(), null), "[C, 4]", "weight=[16, 3]", "C=16");
    }

    @Test
    void offsetsThatAreNone() {
        refused(() -> conv.forward(in.x(), in.weight(), null, ConvCase.ints(1, 12), null), "cu_seqlens[0]=1");
        refused(
                () -> conv.forward(in.x(), in.weight(), null, ConvCase.ints(0, 9, 5, 12), null),
                "cu_seqlens[1]=9",
                "cu_seqlens[2]=5");
        refused(() -> conv.forward(in.x(), in.weight(), null, ConvCase.ints(0, 13), null), "end=13", "S=12");
        refused(() -> conv.forward(in.x(), in.weight(), null, ConvCase.ints(0, 11), null), "slack", "end=11", "S=12");
        refused(() -> conv.forward(in.x(), in.weight(), null, ConvCase.ints(), null), "[documents + 1]");
    }

    @Test
    void gradientsThatDoNotFit() {
        Tensor dbias = Tensor.zeros(DType.F32, 16);
        Gradients out = new Gradients(null, null, dbias);
        refused(() -> conv.backward(in.x(), in.weight(), null, in.offsets(), in.dy(), out), "dbias without a bias");
        Gradients wrong = new Gradients(Tensor.zeros(DType.BF16, 11, 16), null, null);
        refused(() -> conv.backward(in.x(), in.weight(), null, in.offsets(), in.dy(), wrong), "dx=[11, 16]");
        Gradients integers = new Gradients(null, Tensor.zeros(DType.I32, 16, 4), null);
        refused(() -> conv.backward(in.x(), in.weight(), null, in.offsets(), in.dy(), integers), "dtype=I32");
    }

    @Test
    void lifetimesThatEnded() {
        Tensor x = Tensor.zeros(DType.BF16, 12, 16);
        Tensor view = x.rows(0, 12);
        x.close();
        x.close();
        assertThatIllegalStateException()
                .isThrownBy(() -> conv.forward(view, in.weight(), null, in.offsets(), null))
                .withMessageContaining("closed");
        engine.close();
        engine.close();
        assertThatIllegalStateException()
                .isThrownBy(() -> conv.forward(in.x(), in.weight(), null, in.offsets(), null))
                .withMessageContaining("closed");
    }
}
