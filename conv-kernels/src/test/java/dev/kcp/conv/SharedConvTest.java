package dev.kcp.conv;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** Case 105: threads share one convolution and one engine. */
class SharedConvTest {
    private static final int CALLS = 10_000;

    @Test
    void twoThreadsCallTenThousandTimesAndGetTheBitsOfOne() throws Exception {
        try (CpuConvEngine engine = new CpuConvEngine(2);
                ExecutorService threads = Executors.newFixedThreadPool(2)) {
            CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
            List<Future<?>> ends = new ArrayList<>();
            // Of different lengths, so that a call that took the other's tables or scratch would be seen.
            for (int[] lengths : List.of(new int[] {5, 9}, new int[] {70, 1, 60})) {
                ends.add(threads.submit(() -> callAgainAndAgain(conv, lengths)));
            }
            for (Future<?> end : ends) {
                end.get();
            }
        }
    }

    private static void callAgainAndAgain(CausalConv1d conv, int[] lengths) {
        try (ConvCase in = ConvCase.random(lengths.length, 16, DType.F32, DType.F32, lengths);
                Tensor wanted = forward(conv, in, null);
                Tensor y = Tensor.zeros(DType.BF16, in.rows(), in.channels());
                Gradients first = room(in);
                Gradients again = room(in)) {
            backward(conv, in, first);
            for (int call = 0; call < CALLS / 2; call++) {
                y.segment().fill((byte) 0xFF);
                forward(conv, in, y);
                backward(conv, in, again);
                if (y.segment().mismatch(wanted.segment()) >= 0
                        || again.dx().segment().mismatch(first.dx().segment()) >= 0
                        || again.dweight().segment().mismatch(first.dweight().segment()) >= 0) {
                    throw new AssertionError("other bits: call=" + call + " tokens=" + in.rows());
                }
            }
        }
    }

    private static Tensor forward(CausalConv1d conv, ConvCase in, Tensor y) {
        return conv.forward(in.x(), in.weight(), in.bias(), in.offsets(), y);
    }

    private static void backward(CausalConv1d conv, ConvCase in, Gradients out) {
        conv.backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), out);
    }

    private static Gradients room(ConvCase in) {
        return new Gradients(
                Tensor.zeros(DType.BF16, in.rows(), in.channels()),
                Tensor.zeros(DType.F32, in.channels(), 4),
                Tensor.zeros(DType.F32, in.channels()));
    }
}
