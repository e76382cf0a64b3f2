package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import java.util.Locale;

/**
 * Which kernels run for given arguments: a rule over types, options and sizes that the host knows, never over contents.
 * The bits do not depend on the choice.
 *
 * @param entry the kernel's name, as in logs and reports
 * @param rowsPerWarp rows that a warp of forward takes
 * @param sharedBytes dynamic shared memory of a block
 */
record ConvProgram(String entry, int rowsPerWarp, int sharedBytes) {
    static final int WARP_CHANNELS = 128;
    static final int BLOCK_WARPS = 4;
    /** Rows of a block of backward: eight leaves. */
    static final int GROUP_ROWS = 512;

    private static final int LANES = 32;
    /** Up to here forward's warps take few rows, so that there are enough of them; measured on an H200. */
    private static final long FEW_ROWS_UP_TO_ELEMENTS = 200_000_000L;
    /** Each warp's two chunks of eight rows of x and dy. */
    private static final int RING_BYTES = BLOCK_WARPS * 2 * 2 * 8 * WARP_CHANNELS * 2;

    static ConvProgram forwardMain(Operands in, ConvOptions options, boolean tables) {
        int rows = takesFewRows(in) ? 16 : 32;
        return new ConvProgram(
                "forward_main_" + math(options) + (tables ? "_tables" : "_batch") + bias(in) + "_" + rows, rows, 0);
    }

    static boolean takesFewRows(Operands in) {
        return in.x().rows() * in.channels() <= FEW_ROWS_UP_TO_ELEMENTS;
    }

    static ConvProgram forwardSeam(ConvOptions options) {
        return new ConvProgram("forward_seam_" + math(options), 0, 0);
    }

    static ConvProgram backwardMain(Operands in, ConvOptions options, boolean tables) {
        int leafBytes =
                8 * in.sumPlanes() * WARP_CHANNELS * options.policy().sumType().bytes();
        return new ConvProgram(
                "backward_main_" + math(options) + "_" + policy(options) + (tables ? "_tables" : "_batch") + bias(in),
                0,
                leafBytes + RING_BYTES);
    }

    static ConvProgram backwardReduce(ConvOptions options, boolean tables) {
        return new ConvProgram("backward_reduce_" + policy(options) + (tables ? "_tables" : "_batch"), 0, 0);
    }

    static ConvProgram backwardHead(ConvOptions options) {
        return new ConvProgram("backward_head_" + math(options) + "_" + policy(options), 0, 0);
    }

    static ConvProgram backwardOwed() {
        return new ConvProgram("backward_owed", 0, 0);
    }

    static ConvProgram backwardRound(boolean doubles) {
        return new ConvProgram("backward_round_" + (doubles ? "fp32" : "bf16"), 0, 0);
    }

    static ConvProgram checkOffsets() {
        return new ConvProgram("check_offsets", 0, 0);
    }

    private static String math(ConvOptions options) {
        return options.math() == ConvMath.PORTABLE ? "portable" : "fast";
    }

    private static String policy(ConvOptions options) {
        return options.policy() == SiluGradPolicy.BF16 ? "bf16" : "fp32";
    }

    private static String bias(Operands in) {
        return in.bias() == null ? "" : "_bias";
    }

    /** The source file that holds it, without its ending: the first word of its name says which. */
    String file() {
        return "conv_" + entry.substring(0, entry.indexOf('_'));
    }

    static int blockThreads() {
        return LANES * BLOCK_WARPS;
    }

    /** Columns of blocks that cover the channels. */
    static long tiles(long channels) {
        return (channels + WARP_CHANNELS - 1) / WARP_CHANNELS;
    }

    @Override
    public String toString() {
        return entry.toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
