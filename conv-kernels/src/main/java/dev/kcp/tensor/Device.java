package dev.kcp.tensor;

/**
 * Where a tensor's memory lies.
 *
 * @param kind host memory or a CUDA device's
 * @param ordinal the CUDA device number among the visible ones; 0 for the CPU
 */
public record Device(Kind kind, int ordinal) {
    /** Kinds of memory. */
    public enum Kind {
        /** The host's. */
        CPU,
        /** An NVIDIA GPU's. */
        CUDA
    }

    /** The host. */
    public static final Device CPU = new Device(Kind.CPU, 0);

    /** @throws IllegalArgumentException if there is no kind, the ordinal is negative, or not 0 on the host */
    public Device {
        if (kind == null || ordinal < 0 || kind == Kind.CPU && ordinal != 0) {
            throw new IllegalArgumentException("no such device: kind=" + kind + " ordinal=" + ordinal);
        }
    }

    @Override
    public String toString() {
        return kind == Kind.CPU ? "cpu" : "cuda:" + ordinal;
    }
}
