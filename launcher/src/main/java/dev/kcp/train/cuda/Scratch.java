package dev.kcp.train.cuda;

import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.List;

/** Device memory between two programs, grown when too small. A recorded step may still write to a block that was outgrown. */
final class Scratch implements AutoCloseable {
    private final CudaStream stream;
    private final List<Memory> retired = new ArrayList<>();
    private Memory block;

    Scratch(CudaStream stream) {
        this.stream = stream;
        block = stream.allocate(0);
    }

    /** The address of at least so many bytes; what stood there is lost when it grows. */
    long address(long bytes) {
        if (block.bytes() < bytes) {
            if (stream.isCapturing()) {
                throw new IllegalStateException("a recorded step needs more memory than those before it: bytes="
                        + block.bytes() + " wanted=" + bytes);
            }
            retired.add(block);
            block = stream.allocate(bytes);
        }
        return block.address();
    }

    @Override
    public void close() {
        retired.forEach(Memory::close);
        retired.clear();
        block.close();
    }
}
