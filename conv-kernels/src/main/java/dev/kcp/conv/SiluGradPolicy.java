package dev.kcp.conv;

import dev.kcp.tensor.DType;

/**
 * Where SiLU's derivative is taken in backward, which decides how near gradients are to exact ones; docs/math.md has the
 * figures. On data of mean 0, where sums cancel, the choice matters.
 */
public enum SiluGradPolicy {
    /**
     * At the preactivation rounded to BF16, as a framework that stores it would; sums are FP32. At 65536 tokens of mean 0
     * dweight is 5e-4 from the exact gradient (relative L2) and 7 % of dx are off by more than a BF16 ulp; on data of
     * positive mean 6e-6, and none.
     */
    BF16(DType.F32),
    /** At the FP32 preactivation; leaf and node sums are FP64. dweight is within 1e-7 of the exact gradient. */
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
