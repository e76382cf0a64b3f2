package dev.kcp.conv.cuda;

import dev.kcp.KcpException;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngineProvider;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.KernelModule;
import dev.kcp.tensor.Device;
import java.util.List;

/** NVIDIA GPUs, each with a stream of its own per engine. */
public final class CudaEngineProvider implements ConvEngineProvider {
    /** Files of kernels that every engine loads. */
    private static final List<String> NEEDED = List.of("conv_forward", "conv_backward", "rows");

    @Override
    public Device.Kind kind() {
        return Device.Kind.CUDA;
    }

    @Override
    public boolean isSupported(Device device) {
        try (CudaDevice gpu = CudaDevice.open(device.ordinal())) {
            return KernelModule.isAvailable(CudaEngineProvider.class, gpu, NEEDED);
        } catch (KcpException e) {
            return false;
        }
    }

    @Override
    public ConvEngine open(Device device) {
        return CudaConvEngine.open(device.ordinal());
    }
}
