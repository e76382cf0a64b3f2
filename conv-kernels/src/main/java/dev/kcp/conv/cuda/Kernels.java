package dev.kcp.conv.cuda;

import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.KernelModule;
import dev.kcp.cuda.KernelModule.Origin;
import dev.kcp.tensor.CloseStack;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.cuda.cudart.CUfunc_st;

/** The kernels of one device, each looked up once. */
final class Kernels implements AutoCloseable {
    /** A kernel that can be launched. */
    record Kernel(ConvProgram program, String name, CUfunc_st function) {}

    private final CudaDevice device;
    private final Origin origin;
    private final Map<String, KernelModule> modules = new HashMap<>();
    private final Map<ConvProgram, Kernel> kernels = new HashMap<>();

    /** Loads what every engine needs, so that a GPU without kernels is known at once. */
    Kernels(CudaDevice device, Origin origin) {
        this.device = device;
        this.origin = origin;
        try {
            module("conv_forward");
            module("conv_backward");
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    Kernel get(ConvProgram program) {
        Kernel kernel = kernels.get(program);
        if (kernel == null) {
            String entry = program.entry();
            kernel = new Kernel(program, entry, module(program.file()).function(entry, program.sharedBytes()));
            kernels.put(program, kernel);
        }
        return kernel;
    }

    private KernelModule module(String file) {
        return modules.computeIfAbsent(file, name -> KernelModule.load(Kernels.class, device, name, origin));
    }

    @Override
    public void close() {
        List<KernelModule> loaded = List.copyOf(modules.values());
        modules.clear();
        CloseStack.closeAll(loaded);
    }
}
