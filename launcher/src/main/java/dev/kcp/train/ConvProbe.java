package dev.kcp.train;

import dev.kcp.tensor.Tensor;

/** Looks at what a layer's convolution wrote, right after the call. */
interface ConvProbe {
    /** Looks at nothing; what a step that is recorded and replayed must use. */
    ConvProbe NONE = (layer, name, rows) -> {};

    /**
     * @param name {@code y} or {@code dx}
     * @param rows BF16 {@code [local rows, channels]}, on the engine's device; borrowed
     */
    void look(int layer, String name, Tensor rows);
}
