package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cuda.Kernels.Kernel;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/** The kernel for given arguments, found by {@link ConvProgram}'s rule once and then by a small number. */
final class ProgramRule {
    private static final int FORWARD_MAIN = 0;
    private static final int BACKWARD_MAIN = 16;
    private static final int OTHERS = 32;

    private final Kernels kernels;
    private final Kernel[] found = new Kernel[OTHERS + 16];

    ProgramRule(Kernels kernels) {
        this.kernels = kernels;
    }

    Kernel forwardMain(Operands in, ConvOptions options, boolean tables) {
        int few = ConvProgram.takesFewRows(in) ? 1 : 0;
        int slot = FORWARD_MAIN + few + 2 * bit(in.bias() != null) + 4 * bit(tables) + 8 * math(options);
        Kernel kernel = found[slot];
        return kernel != null ? kernel : keep(slot, ConvProgram.forwardMain(in, options, tables));
    }

    Kernel backwardMain(Operands in, ConvOptions options, boolean tables) {
        int slot = BACKWARD_MAIN + policy(options) + 2 * bit(in.bias() != null) + 4 * bit(tables) + 8 * math(options);
        Kernel kernel = found[slot];
        return kernel != null ? kernel : keep(slot, ConvProgram.backwardMain(in, options, tables));
    }

    Kernel backwardReduce(ConvOptions options, boolean tables) {
        int slot = OTHERS + policy(options) + 2 * bit(tables);
        Kernel kernel = found[slot];
        return kernel != null ? kernel : keep(slot, ConvProgram.backwardReduce(options, tables));
    }

    Kernel backwardHead(ConvOptions options) {
        int slot = OTHERS + 4 + policy(options) + 2 * math(options);
        Kernel kernel = found[slot];
        return kernel != null ? kernel : keep(slot, ConvProgram.backwardHead(options));
    }

    Kernel forwardSeam(ConvOptions options) {
        int slot = OTHERS + 8 + math(options);
        Kernel kernel = found[slot];
        return kernel != null ? kernel : keep(slot, ConvProgram.forwardSeam(options));
    }

    Kernel backwardOwed() {
        int slot = OTHERS + 10;
        return found[slot] != null ? found[slot] : keep(slot, ConvProgram.backwardOwed());
    }

    Kernel backwardRound(boolean doubles) {
        int slot = OTHERS + 11 + bit(doubles);
        return found[slot] != null ? found[slot] : keep(slot, ConvProgram.backwardRound(doubles));
    }

    private Kernel keep(int slot, ConvProgram program) {
        found[slot] = kernels.get(program);
        return found[slot];
    }

    /** Looks every program up, so that none is loaded by a later call. */
    void loadAll() {
        Memory nowhere = Memory.borrow(Device.CPU, Memory.ALIGNMENT_BYTES, 1L << 40);
        for (long rows : new long[] {1, 1L << 30}) {
            Tensor x = Tensor.over(nowhere, DType.BF16, rows, 8);
            for (Tensor bias : new Tensor[] {null, x}) {
                Operands in = new Operands(x, x, bias, null);
                for (SiluGradPolicy policy : SiluGradPolicy.values()) {
                    for (ConvMath math : ConvMath.values()) {
                        loadAll(in, new ConvOptions(policy, math, false));
                    }
                }
            }
        }
        backwardOwed();
        backwardRound(false);
        backwardRound(true);
    }

    private void loadAll(Operands in, ConvOptions options) {
        for (boolean tables : new boolean[] {false, true}) {
            forwardMain(in, options, tables);
            backwardMain(in, options, tables);
            backwardReduce(options, tables);
        }
        forwardSeam(options);
        backwardHead(options);
    }

    private static int bit(boolean set) {
        return set ? 1 : 0;
    }

    private static int math(ConvOptions options) {
        return bit(options.math() == ConvMath.PORTABLE);
    }

    private static int policy(ConvOptions options) {
        return bit(options.policy() == SiluGradPolicy.FP32);
    }
}
