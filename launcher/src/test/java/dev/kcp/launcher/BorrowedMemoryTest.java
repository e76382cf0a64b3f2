package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.ShortPointer;
import org.junit.jupiter.api.Test;

/** Rows that lie in memory of other frameworks are read and written there, and stay theirs. */
class BorrowedMemoryTest {
    private static final int TOKENS = 16;
    private static final int CHANNELS = 64;
    private static final int BYTES = TOKENS * CHANNELS * Short.BYTES;

    /** Token t, channel c of x. */
    private static short x(int i) {
        return BFloat16.fromFloat((float) Math.sin(i));
    }

    /** Runs forward with x and y at these addresses, whose memory is somebody else's. */
    private static void forward(long x, long y) {
        try (CpuConvEngine engine = new CpuConvEngine(1);
                Tensor rows = Tensor.over(Memory.borrow(Device.CPU, x, BYTES), DType.BF16, TOKENS, CHANNELS);
                Tensor out = Tensor.over(Memory.borrow(Device.CPU, y, BYTES), DType.BF16, TOKENS, CHANNELS);
                Tensor weight = Tensor.zeros(DType.F32, CHANNELS, 4);
                Tensor cuSeqlens = Tensor.zeros(DType.I32, 2)) {
            cuSeqlens.segment().setAtIndex(ValueLayout.JAVA_INT, 1, TOKENS);
            for (int c = 0; c < CHANNELS; c++) {
                weight.segment().setAtIndex(ValueLayout.JAVA_FLOAT, 4L * c + 3, 1);
            }
            new CausalConv1d(engine, ConvOptions.DEFAULT).forward(rows, weight, null, cuSeqlens, out);
        }
    }

    /** With taps 0, 0, 0, 1 the result is SiLU of x. */
    private static void assertSilu(int i, short y) {
        double x = BFloat16.toFloat(x(i));
        double silu = x / (1 + Math.exp(-x));
        assertThat((double) BFloat16.toFloat(y)).as("element %d", i).isCloseTo(silu, within(silu));
    }

    private static org.assertj.core.data.Offset<Double> within(double value) {
        return org.assertj.core.api.Assertions.offset(Math.abs(value) / 128 + 1e-30);
    }

    @Test
    void directBuffer() {
        ByteBuffer x = direct();
        ByteBuffer y = direct();
        for (int i = 0; i < TOKENS * CHANNELS; i++) {
            x.putShort(2 * i, x(i));
        }
        forward(MemorySegment.ofBuffer(x).address(), MemorySegment.ofBuffer(y).address());
        for (int i = 0; i < TOKENS * CHANNELS; i++) {
            assertThat(x.getShort(2 * i)).isEqualTo(x(i));
            assertSilu(i, y.getShort(2 * i));
        }
    }

    private static ByteBuffer direct() {
        return ByteBuffer.allocateDirect(BYTES + 15).alignedSlice(16).order(ByteOrder.nativeOrder());
    }

    @Test
    void segmentOfAnotherArena() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment x = arena.allocate(BYTES, 16);
            MemorySegment y = arena.allocate(BYTES, 16);
            for (int i = 0; i < TOKENS * CHANNELS; i++) {
                x.setAtIndex(ValueLayout.JAVA_SHORT, i, x(i));
            }
            forward(x.address(), y.address());
            for (int i = 0; i < TOKENS * CHANNELS; i++) {
                assertSilu(i, y.getAtIndex(ValueLayout.JAVA_SHORT, i));
            }
        }
    }

    /** As a tensor of JavaCPP's PyTorch hands out its rows; it is still whole after kcp has closed what it borrowed. */
    @Test
    void pointerOfJavaCpp() {
        try (Pointer x = Pointer.malloc(BYTES);
                Pointer y = Pointer.malloc(BYTES);
                ShortPointer xs = new ShortPointer(x);
                ShortPointer ys = new ShortPointer(y)) {
            for (int i = 0; i < TOKENS * CHANNELS; i++) {
                xs.put(i, x(i));
            }
            forward(x.address(), y.address());
            for (int i = 0; i < TOKENS * CHANNELS; i++) {
                assertThat(xs.get(i)).isEqualTo(x(i));
                assertSilu(i, ys.get(i));
            }
            Pointer.free(x);
            Pointer.free(y);
        }
    }
}
