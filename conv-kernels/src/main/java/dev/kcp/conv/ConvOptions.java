package dev.kcp.conv;

import static dev.kcp.Arguments.present;

/**
 * How a convolution is computed.
 *
 * @param policy where SiLU's derivative is taken, and so how near gradients are to exact ones
 * @param math which exponential and division
 * @param allowSlack whether rows after the last document are accepted; they come out as zeros and add nothing
 */
public record ConvOptions(SiluGradPolicy policy, ConvMath math, boolean allowSlack) {
    /** Derivative at the BF16 preactivation, the device's fastest math, no slack rows. */
    public static final ConvOptions DEFAULT = new ConvOptions(SiluGradPolicy.BF16, ConvMath.FAST, false);

    /** @throws IllegalArgumentException if policy or math is null */
    public ConvOptions {
        present("policy", policy);
        present("math", math);
    }

    /** The same options with another policy. */
    public ConvOptions withPolicy(SiluGradPolicy newPolicy) {
        return new ConvOptions(newPolicy, math, allowSlack);
    }
}
