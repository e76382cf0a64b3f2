package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** Tensors between canary bytes, optionally off any alignment but the element's, filled with 0xFF. */
final class Guarded implements AutoCloseable {
    private static final int GUARD_BYTES = 256;
    private static final byte CANARY = (byte) 0xA5;

    private record Block(Memory memory, long begin, long end) {}

    private final List<Block> blocks = new ArrayList<>();

    /** Poisoned room for a tensor that starts {@code shift} elements after an aligned address. */
    Tensor poisoned(int shift, DType dtype, long... shape) {
        long elements = 1;
        for (long extent : shape) {
            elements *= extent;
        }
        long begin = GUARD_BYTES + (long) shift * dtype.bytes();
        long end = begin + elements * dtype.bytes();
        Memory memory = Memory.allocateHost(end + GUARD_BYTES);
        memory.segment().fill(CANARY);
        memory.segment().asSlice(begin, end - begin).fill((byte) 0xFF);
        blocks.add(new Block(memory, begin, end));
        return Tensor.over(memory, begin, dtype, shape);
    }

    /** A guarded copy. */
    Tensor copyOf(Tensor tensor, int shift) {
        Tensor copy = poisoned(shift, tensor.dtype(), tensor.shape());
        MemorySegment.copy(
                tensor.segment(),
                0,
                HostMemory.ALL,
                copy.address(),
                tensor.segment().byteSize());
        return copy;
    }

    void assertCanariesIntact() {
        for (Block block : blocks) {
            MemorySegment all = block.memory().segment();
            assertCanaries(all.asSlice(0, block.begin()));
            assertCanaries(all.asSlice(block.end()));
        }
    }

    private static void assertCanaries(MemorySegment guard) {
        MemorySegment expected =
                MemorySegment.ofArray(new byte[(int) guard.byteSize()]).fill(CANARY);
        assertThat(guard.mismatch(expected))
                .as("first byte written outside a tensor")
                .isEqualTo(-1);
    }

    @Override
    public void close() {
        blocks.forEach(block -> block.memory().close());
    }
}
