package dev.kcp.conv.cuda;

import java.util.HashMap;
import java.util.Map;
import org.bytedeco.cuda.cudart.CUfunc_st;

/** The kernels of one device, each looked up once. */
final class Kernels implements AutoCloseable {
    /** A kernel that can be launched. */
    record Kernel(ConvProgram program, CUfunc_st function) {
        String name() {
            return program.entry();
        }
    }

    private final KernelModule forward;
    private final KernelModule backward;
    private final Map<ConvProgram, Kernel> kernels = new HashMap<>();

    Kernels(CudaDevice device) {
        forward = KernelModule.load(device, "conv_forward");
        try {
            backward = KernelModule.load(device, "conv_backward");
        } catch (RuntimeException e) {
            forward.close();
            throw e;
        }
    }

    Kernel get(ConvProgram program) {
        return kernels.computeIfAbsent(program, this::load);
    }

    private Kernel load(ConvProgram program) {
        KernelModule module = program.isForward() ? forward : backward;
        return new Kernel(program, module.function(program.entry(), program.sharedBytes()));
    }

    @Override
    public void close() {
        backward.close();
        forward.close();
    }
}
