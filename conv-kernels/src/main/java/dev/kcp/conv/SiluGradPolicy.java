package dev.kcp.conv;

import dev.kcp.tensor.DType;

/** Where SiLU's derivative is taken in backward. */
public enum SiluGradPolicy {
    /** At the preactivation rounded to BF16, as a framework that stores it would; sums are FP32. */
    BF16(DType.F32),
    /** At the exact FP32 preactivation; leaf and node sums are FP64. */
    FP32(DType.F64);

    private final DType sumType;

    SiluGradPolicy(DType sumType) {
        this.sumType = sumType;
    }

    /** Type of leaf sums, node sums and exchanged partial sums of dweight and dbias. */
    public DType sumType() {
        return sumType;
    }
}
