package dev.kcp.bench;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.Random;

/** Tensors to measure with, on an engine's device. */
final class RandomRows {
    private static final int DRAWN_ROWS = 61;

    private RandomRows() {}

    /** Normal numbers, drawn for the first rows and repeated below them. */
    static Tensor normal(ConvEngine engine, int tokens, int channels) {
        Random random = new Random(7);
        int drawn = Math.min(DRAWN_ROWS, tokens);
        Tensor host = Tensor.zeros(DType.BF16, drawn, channels);
        for (long i = 0; i < host.elements(); i++) {
            host.segment().setAtIndex(ValueLayout.JAVA_SHORT, i, BFloat16.fromFloat((float) random.nextGaussian()));
        }
        Tensor all = engine.allocate(DType.BF16, tokens, channels);
        try (Tensor block = onDevice(engine, host)) {
            for (int row = 0; row < tokens; row += drawn) {
                copyRows(engine, block, all, row, Math.min(drawn, tokens - row));
            }
            if (engine instanceof CudaConvEngine cuda) {
                cuda.stream().synchronize();
            }
        }
        return all;
    }

    private static void copyRows(ConvEngine engine, Tensor block, Tensor to, int toRow, int rows) {
        long bytes = rows * block.pitchBytes();
        if (engine instanceof CudaConvEngine cuda) {
            cuda.stream().copy(block.address(), to.rowAddress(toRow), bytes);
        } else {
            HostMemory.copy(block.address(), to.rowAddress(toRow), bytes);
        }
    }

    /** Normal taps. */
    static Tensor taps(ConvEngine engine, int channels) {
        Random random = new Random(8);
        Tensor host = Tensor.zeros(DType.F32, channels, 4);
        for (long i = 0; i < host.elements(); i++) {
            host.segment().setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) random.nextGaussian() / 2);
        }
        return onDevice(engine, host);
    }

    static Tensor ints(ConvEngine engine, int... values) {
        Tensor host = Tensor.zeros(DType.I32, values.length);
        for (int i = 0; i < values.length; i++) {
            host.segment().setAtIndex(ValueLayout.JAVA_INT, i, values[i]);
        }
        return onDevice(engine, host);
    }

    private static Tensor onDevice(ConvEngine engine, Tensor host) {
        if (!(engine instanceof CudaConvEngine cuda)) {
            return host;
        }
        try (host) {
            return cuda.stream().upload(host);
        }
    }
}
