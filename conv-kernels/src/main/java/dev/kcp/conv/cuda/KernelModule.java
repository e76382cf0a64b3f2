package dev.kcp.conv.cuda;

import static dev.kcp.conv.cuda.Driver.check;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.IOException;
import java.io.InputStream;
import jcuda.driver.CUfunction;
import jcuda.driver.CUfunction_attribute;
import jcuda.driver.CUmodule;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.bytedeco.cuda.cudart.CUfunc_st;

/** One file of kernels on one device: machine code for several GPU generations, built by nvcc and kept in the jar. */
final class KernelModule implements AutoCloseable {
    private final CudaDevice device;
    private final CUmodule module = new CUmodule();
    private boolean closed;

    private KernelModule(CudaDevice device, byte[] code, String name) {
        this.device = device;
        device.makeCurrent();
        int result = JCudaDriver.cuModuleLoadData(module, code);
        if (result == CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU) {
            throw new KcpException(
                    Code.MISSING_DEVICE,
                    "no kernels for this GPU in " + name + ": device=" + device.name() + " computeCapability="
                            + device.computeCapability());
        }
        check("cuModuleLoadData(" + name + ")", result);
    }

    /**
     * Loads a file of kernels.
     *
     * @param name as of its source, without folder and ending
     * @throws KcpException with code MISSING_DEVICE if the build had no nvcc, or the GPU's generation is not among those built
     */
    static KernelModule load(CudaDevice device, String name) {
        String file = name + ".fatbin";
        try (InputStream in = KernelModule.class.getResourceAsStream(file)) {
            if (in == null) {
                throw new KcpException(
                        Code.MISSING_DEVICE,
                        "this build of kcp has no GPU kernels: build it where nvcc (CUDA 13) is on PATH or in CUDA_HOME;"
                                + " missing=" + file);
            }
            return new KernelModule(device, in.readAllBytes(), file);
        } catch (IOException e) {
            throw new KcpException(Code.MISSING_DEVICE, "the GPU kernels cannot be read: " + file, e);
        }
    }

    /** A kernel by the name of its entry. */
    CUfunc_st function(String entry, int dynamicSharedBytes) {
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
