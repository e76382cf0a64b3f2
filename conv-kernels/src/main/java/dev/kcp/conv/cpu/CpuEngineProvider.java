package dev.kcp.conv.cpu;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngineProvider;
import dev.kcp.tensor.Device;

/** The CPU: always there, with a thread per processor. */
public final class CpuEngineProvider implements ConvEngineProvider {
    @Override
    public Device.Kind kind() {
        return Device.Kind.CPU;
    }

    @Override
    public boolean isSupported(Device device) {
        return true;
    }

    @Override
    public ConvEngine open(Device device) {
        return new CpuConvEngine(Runtime.getRuntime().availableProcessors());
    }
}
