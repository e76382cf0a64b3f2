package dev.kcp.tensor;

/** Element types, named as safetensors names them. */
public enum DType {
    /** The upper half of an FP32 number. */
    BF16(2),
    /** IEEE single precision. */
    F32(4),
    /** IEEE double precision. */
    F64(8),
    /** Signed whole numbers, of offsets. */
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
