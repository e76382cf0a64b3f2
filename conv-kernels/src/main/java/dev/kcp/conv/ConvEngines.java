package dev.kcp.conv;

import dev.kcp.tensor.Device;
import java.util.ServiceLoader;

/** The engine of a device, by one code for every kind of device. */
public final class ConvEngines {
    private ConvEngines() {}

    /** Whether {@link #open} would succeed: the device, its driver and programs for it are there. */
    public static boolean isSupported(Device device) {
        return provider(device).isSupported(device);
    }

    /**
     * An engine with its own threads or stream, closed by the caller.
     *
     * @throws dev.kcp.KcpException with code MISSING_DEVICE if the device, its driver or its programs are not there
     */
    public static ConvEngine open(Device device) {
        return provider(device).open(device);
    }

    private static ConvEngineProvider provider(Device device) {
        for (ConvEngineProvider provider :
                ServiceLoader.load(ConvEngineProvider.class, ConvEngines.class.getClassLoader())) {
            if (provider.kind() == device.kind()) {
                return provider;
            }
        }
        throw new IllegalStateException("no engine is registered for this kind of device: device=" + device);
    }
}
