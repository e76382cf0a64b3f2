package dev.kcp.launcher;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.Tensor;
import java.util.function.Consumer;

/** Ways between the host and the device of an engine; none, where the device is the host. */
final class DeviceCopies {
    /** The engine's stream, or null on the host. */
    private final CudaStream stream;

    private DeviceCopies(CudaStream stream) {
        this.stream = stream;
    }

    static DeviceCopies of(ConvEngine engine) {
        return new DeviceCopies(engine instanceof CudaConvEngine cuda ? cuda.stream() : null);
    }

    /** As summaries name it. */
    String deviceName() {
        return stream == null ? "cpu" : "cuda " + stream.device().name();
    }

    /** Takes a host tensor, or null, and gives it on the device. */
    Tensor upload(Tensor host) {
        if (stream == null || host == null) {
            return host;
        }
        try (host) {
            return stream.upload(host);
        }
    }

    /** Takes a tensor on the device and gives it on the host. Waits. */
    Tensor download(Tensor tensor) {
        if (stream == null) {
            return tensor;
        }
        try (tensor) {
            return stream.download(tensor);
        }
    }

    /** Lends a tensor on the device to host code, as a copy that ends with it. Waits. */
    void onHost(Tensor tensor, Consumer<Tensor> body) {
        if (stream == null) {
            body.accept(tensor);
            return;
        }
        try (Tensor host = stream.download(tensor)) {
            body.accept(host);
        }
    }
}
