package dev.kcp.conv;

import dev.kcp.tensor.Device;

/** One kind of device's engine, found through {@link java.util.ServiceLoader}. */
public interface ConvEngineProvider {
    /** The kind of device that it serves. */
    Device.Kind kind();

    /**
     * Whether {@link #open} would succeed on a device of this kind: driver, device and programs are there. Does not throw.
     */
    boolean isSupported(Device device);

    /**
     * An engine on a device of this kind, closed by the caller.
     *
     * @throws dev.kcp.KcpException with code MISSING_DEVICE if the device, its driver or its programs are not there
     */
    ConvEngine open(Device device);
}
