package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

@NeedsGpu
class CudaWorkspaceTest extends WorkspaceContract {
    private static CudaConvEngine engine;

    @BeforeAll
    static void open() {
        engine = CudaConvEngine.open(0);
    }

    @AfterAll
    static void closeEngine() {
        engine.close();
    }

    @Override
    ConvEngine engine() {
        return engine;
    }

    @Override
    Tensor place(Tensor host) {
        return engine.stream().upload(host);
    }

    @Override
    Tensor host(Tensor placed) {
        return engine.stream().download(placed);
    }

    @Override
    void fill(Memory memory, byte value) {
        engine.stream().fill(memory.address(), value, memory.bytes());
    }

    @Test
    void bytesAreAsDocumented() {
        CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
        assertThat(conv.forwardWorkspaceBytes(8192, 4096)).isZero();
        assertThat(conv.backwardWorkspaceBytes(8192, 4096)).isEqualTo(16 * 40 * 4096 + 2 * 2 * 4096);
        assertThat(conv.backwardWorkspaceBytes(0, 4096)).isZero();
    }

    /** An engine that never saw the size, and so has no work space of its own, inside a capture. */
    @Test
    void aCaptureInTheCallersWorkSpaceAllocatesNothing() {
        try (CudaConvEngine fresh = CudaConvEngine.open(0);
                ConvCase in = ConvCase.random(9, 64, 300, 900);
                Tensor x = fresh.stream().upload(in.x());
                Tensor weight = fresh.stream().upload(in.weight());
                Tensor offsets = fresh.stream().upload(in.offsets());
                Tensor dy = fresh.stream().upload(in.dy());
                Tensor y = fresh.allocate(DType.BF16, in.rows(), in.channels());
                Gradients out = new Gradients(
                        fresh.allocate(DType.BF16, in.rows(), in.channels()),
                        fresh.allocate(DType.F32, in.channels(), 4),
                        null)) {
            CausalConv1d conv = new CausalConv1d(fresh, ConvOptions.DEFAULT);
            conv.prepare();
            CudaStream stream = fresh.stream();
            try (Memory space = conv.allocateBackwardWorkspace(in.rows(), in.channels());
                    Memory forwardSpace = conv.allocateForwardWorkspace(in.rows(), in.channels());
                    CudaGraph graph = CudaGraph.capture(stream, () -> {
                        conv.forward(x, weight, null, offsets, y, forwardSpace);
                        conv.backward(x, weight, null, offsets, dy, out, space);
                        conv.backward(x, weight, null, offsets, null, new Gradients(null, out.dweight(), null), space);
                        conv.backward(x, weight, null, offsets, dy, new Gradients(null, out.dweight(), null), space);
                    })) {
                stream.fill(y.address(), (byte) 0xFF, y.elements() * 2);
                stream.fill(out.dx().address(), (byte) 0xFF, y.elements() * 2);
                for (int replay = 0; replay < 20; replay++) {
                    graph.launch();
                }
                stream.synchronize();
            }
            try (Tensor wantY = fresh.allocate(DType.BF16, in.rows(), in.channels());
                    Gradients want = new Gradients(
                            fresh.allocate(DType.BF16, in.rows(), in.channels()),
                            fresh.allocate(DType.F32, in.channels(), 4),
                            null)) {
                conv.forward(x, weight, null, offsets, wantY);
                conv.backward(x, weight, null, offsets, dy, want);
                assertSame(stream, "y", y, wantY);
                assertSame(stream, "dx", out.dx(), want.dx());
                assertSame(stream, "dweight", out.dweight(), want.dweight());
            }
        }
    }

    private static void assertSame(CudaStream stream, String name, Tensor got, Tensor want) {
        try (Tensor a = stream.download(got);
                Tensor b = stream.download(want)) {
            Tolerance.assertSameBits(name, a, b);
        }
    }
}
