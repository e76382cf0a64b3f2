package dev.kcp.tensor;

/** Element types, named as safetensors names them. */
public enum DType {
    BF16(2),
    F32(4),
    F64(8),
    I32(4);

    private final int bytes;

    DType(int bytes) {
        this.bytes = bytes;
    }

    /** Bytes of one element. */
    public int bytes() {
        return bytes;
    }
}
