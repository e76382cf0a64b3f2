package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Which kernel a call runs, and its shared memory. */
class ConvProgramTest {
    private static final ConvOptions FAST = new ConvOptions(SiluGradPolicy.BF16, ConvMath.FAST, false);
    private static final ConvOptions EXACT = new ConvOptions(SiluGradPolicy.FP32, ConvMath.PORTABLE, false);

    /** Operands that nobody reads. */
    private static Operands operands(long rows, boolean bias) {
        Memory nowhere = Memory.borrow(Device.CPU, Memory.ALIGNMENT_BYTES, 1L << 40);
        Tensor x = Tensor.over(nowhere, DType.BF16, rows, 1024);
        Tensor weight = Tensor.over(nowhere, DType.BF16, 1024, 4);
        return new Operands(x, weight, bias ? Tensor.over(nowhere, DType.BF16, 1024) : null, null);
    }

    @Test
    void forwardTakesFewRowsAWarpUpToTwoHundredMillionElements() {
        assertThat(ConvProgram.forwardMain(operands(195_312, false), FAST, false)
                        .entry())
                .isEqualTo("forward_main_fast_batch_16");
        assertThat(ConvProgram.forwardMain(operands(195_313, true), EXACT, true).entry())
                .isEqualTo("forward_main_portable_tables_bias_32");
        assertThat(ConvProgram.forwardSeam(EXACT).entry()).isEqualTo("forward_seam_portable");
    }

    @Test
    void backwardsSharedMemoryHoldsEightLeavesAndTheRings() {
        ConvProgram few = ConvProgram.backwardMain(operands(1, false), FAST, false);
        assertThat(few.entry()).isEqualTo("backward_main_fast_bf16_batch");
        assertThat(few.sharedBytes()).isEqualTo(49_152);
        ConvProgram many = ConvProgram.backwardMain(operands(1 << 20, true), EXACT, true);
        assertThat(many.entry()).isEqualTo("backward_main_portable_fp32_tables_bias");
        assertThat(many.sharedBytes()).isEqualTo(73_728);
    }

    @Test
    void otherPartsKnowWhatTheirNamesSay() {
        assertThat(ConvProgram.backwardHead(EXACT)).hasToString("backward-head-portable-fp32");
        assertThat(ConvProgram.backwardReduce(FAST, true)).hasToString("backward-reduce-bf16-tables");
        assertThat(ConvProgram.backwardOwed()).hasToString("backward-owed");
        assertThat(ConvProgram.backwardRound(SiluGradPolicy.FP32)).hasToString("backward-round-fp32");
        assertThat(ConvProgram.checkOffsets().file()).isEqualTo("conv_check");
    }
}
