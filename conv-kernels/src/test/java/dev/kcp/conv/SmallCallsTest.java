package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import org.junit.jupiter.api.Test;

class SmallCallsTest {
    private static final int CALLS = 10_000;

    /** Case 100: nothing waits for the collector. */
    @Test
    void everyCallFreesWhatItAllocated() {
        try (CpuConvEngine engine = new CpuConvEngine(1);
                ConvCase in = ConvCase.random(1, 16, 5, 9);
                Tensor dx = Tensor.zeros(DType.BF16, 14, 16);
                Tensor dweight = Tensor.zeros(DType.F32, 16, 4)) {
            CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
            Gradients out = new Gradients(dx, dweight, null);
            call(conv, in, out);
            long before = NativeMemory.bytes();
            for (int i = 0; i < CALLS; i++) {
                call(conv, in, out);
            }
            assertThat(NativeMemory.bytes()).isEqualTo(before);
        }
    }

    private static void call(CausalConv1d conv, ConvCase in, Gradients out) {
        conv.forward(in.x(), in.weight(), null, in.offsets(), null).close();
        conv.backward(in.x(), in.weight(), null, in.offsets(), in.dy(), out);
    }
}
