package dev.kcp.conv;

/** Which exponential and division the programs use. */
public enum ConvMath {
    /** The fastest of the device within the contract's accuracy. On the CPU it is the portable one. */
    FAST,
    /** IEEE multiply, add, fma and divide alone: the same bits on every device. */
    PORTABLE
}
