package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Memory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.JCudaDriver;

/**
 * What was allocated while a graph was captured. Its addresses stand in the graph, so it lives as long; a block that the
 * captured work frees serves the next allocation of that work, which runs after it in every replay.
 */
final class GraphMemory implements AutoCloseable {
    private static final int RELAXED = 2;

    private final CudaDevice device;
    private final Map<Long, List<CUdeviceptr>> free = new HashMap<>();
    private final List<CUdeviceptr> all = new ArrayList<>();
    private boolean closed;

    GraphMemory(CudaDevice device) {
        this.device = device;
    }

    synchronized Memory allocate(long bytes) {
        List<CUdeviceptr> blocks = free.computeIfAbsent(bytes, size -> new ArrayList<>());
        CUdeviceptr block = blocks.isEmpty() ? make(bytes) : blocks.removeLast();
        return Memory.own(device.device(), Handles.addressOf(block), bytes, () -> giveBack(bytes, block));
    }

    private CUdeviceptr make(long bytes) {
        // An allocation that is not queued may be made during a capture only by a thread that says so.
        int[] mode = {RELAXED};
        check("cuThreadExchangeStreamCaptureMode", JCudaDriver.cuThreadExchangeStreamCaptureMode(mode));
        try {
            CUdeviceptr block = new CUdeviceptr();
            check("cuMemAlloc(" + bytes + " bytes)", JCudaDriver.cuMemAlloc(block, bytes));
            all.add(block);
            return block;
        } finally {
            check("cuThreadExchangeStreamCaptureMode", JCudaDriver.cuThreadExchangeStreamCaptureMode(mode));
        }
    }

    private synchronized void giveBack(long bytes, CUdeviceptr block) {
        if (!closed) {
            free.get(bytes).add(block);
        }
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            device.makeCurrent();
            try (CloseStack owned = new CloseStack()) {
                for (CUdeviceptr block : all) {
                    owned.push(() -> check("cuMemFree", JCudaDriver.cuMemFree(block)));
                }
            }
        }
    }
}
