package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import jcuda.driver.CUfunction;
import jcuda.driver.CUfunction_attribute;
import jcuda.driver.CUmodule;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.bytedeco.cuda.cudart.CUfunc_st;

/**
 * One file of kernels on one device: machine code for several GPU generations, built by nvcc and kept in the jar; where
 * there is none for this GPU, compiled here.
 */
public final class KernelModule implements AutoCloseable {
    /** Where kernels may come from. */
    public enum Origin {
        /** The jar's machine code, or what NVRTC makes of the jar's sources where that has none for the GPU. */
        BUILT_OR_COMPILED,
        /** The jar's sources. */
        COMPILED
    }

    private final CudaDevice device;
    private final CUmodule module;
    private boolean closed;

    private KernelModule(CudaDevice device, CUmodule module) {
        this.device = device;
        this.module = module;
    }

    /**
     * Loads a file of kernels.
     *
     * @param owner class in whose package the build put it
     * @param name as of its source, without folder and ending
     * @throws KcpException with code MISSING_DEVICE if the jar has no machine code for the GPU and none can be made here
     */
    public static KernelModule load(Class<?> owner, CudaDevice device, String name, Origin origin) {
        CUmodule built = origin == Origin.COMPILED ? null : loadBuilt(owner, device, name);
        if (built != null) {
            return new KernelModule(device, built);
        }
        byte[] code = KernelCompiler.compile(KernelSource.of(owner, name), device);
        CUmodule compiled = new CUmodule();
        device.makeCurrent();
        check("cuModuleLoadData(" + name + ")", JCudaDriver.cuModuleLoadData(compiled, code));
        return new KernelModule(device, compiled);
    }

    /** The jar's machine code, loaded, or null where it has none for this GPU. */
    private static CUmodule loadBuilt(Class<?> owner, CudaDevice device, String name) {
        String file = name + ".fatbin";
        try (InputStream in = owner.getResourceAsStream(file)) {
            if (in == null) {
                return null;
            }
            device.makeCurrent();
            CUmodule module = new CUmodule();
            int result = JCudaDriver.cuModuleLoadData(module, in.readAllBytes());
            if (result == CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU) {
                return null;
            }
            check("cuModuleLoadData(" + name + ")", result);
            return module;
        } catch (IOException e) {
            throw new KcpException(Code.MISSING_DEVICE, "the GPU kernels cannot be read: " + file, e);
        }
    }

    /** Whether {@link #load} would succeed for all these files; compiles nothing. */
    public static boolean isAvailable(Class<?> owner, CudaDevice device, List<String> names) {
        for (String name : names) {
            CUmodule built = loadBuilt(owner, device, name);
            if (built == null) {
                return KernelCompiler.isAvailable(device);
            }
            new KernelModule(device, built).close();
        }
        return true;
    }

    /** A kernel by the name of its entry. */
    public CUfunc_st function(String entry, int dynamicSharedBytes) {
        device.makeCurrent();
        CUfunction function = new CUfunction();
        check("cuModuleGetFunction(" + entry + ")", JCudaDriver.cuModuleGetFunction(function, module, entry));
        if (dynamicSharedBytes > 0) {
            check(
                    "cuFuncSetAttribute(" + entry + ")",
                    JCudaDriver.cuFuncSetAttribute(
                            function,
                            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            dynamicSharedBytes));
        }
        return Handles.function(function);
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            device.makeCurrent();
            check("cuModuleUnload", JCudaDriver.cuModuleUnload(module));
        }
    }
}
