package dev.kcp.launcher;

import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import picocli.CommandLine.Option;

/** Where the convolution computes and by which rules; for every command that computes it alone. */
final class OpOptions {
    private enum DeviceChoice {
        CPU,
        CUDA
    }

    @Option(
            names = "--device",
            defaultValue = "cpu",
            paramLabel = "DEVICE",
            description = "cpu or cuda (${DEFAULT-VALUE}).")
    private DeviceChoice device;

    @Option(
            names = "--policy",
            defaultValue = "bf16",
            paramLabel = "POLICY",
            description =
                    "bf16 or fp32: the preactivation that SiLU's derivative is taken at. At S = 65536, on data of mean 0, "
                            + "dweight is 5e-4 from the exact gradient with bf16, 7e-8 with fp32, and 7 %% of dx are off by more "
                            + "than an ulp with bf16 (${DEFAULT-VALUE}).")
    private SiluGradPolicy policy;

    @Option(
            names = "--math",
            defaultValue = "fast",
            paramLabel = "MATH",
            description = "fast, or portable: the same bits on every device (${DEFAULT-VALUE}).")
    private ConvMath math;

    boolean wantsCuda() {
        return device == DeviceChoice.CUDA;
    }

    ConvOptions options(boolean allowSlack) {
        return new ConvOptions(policy, math, allowSlack);
    }
}
