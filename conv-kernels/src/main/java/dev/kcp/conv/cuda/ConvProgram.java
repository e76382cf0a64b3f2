package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * The convolution's kernels, one value for each; {@link #ALL} lists them. Which one runs is a rule over types, options and
 * sizes that the host knows, never over contents. The bits do not depend on the choice.
 *
 * @param math null where the part has only one
 * @param policy null where the part has only one
 * @param tables whether it reads a shard's tables; false where the part has only one form
 * @param bias whether there is a bias; false where the part has only one form
 * @param fewRows whether a warp takes few rows; false where the part has only one form
 */
record ConvProgram(Part part, ConvMath math, SiluGradPolicy policy, boolean tables, boolean bias, boolean fewRows) {
    static final int WARP_CHANNELS = 128;
    static final int BLOCK_WARPS = 4;
    /** Rows of a block of backward: eight leaves. */
    static final int GROUP_ROWS = 512;
    /** Rows that a warp of backward loads at once. */
    static final int CHUNK_ROWS = 8;

    private static final int LANES = 32;
    private static final int FEW_ROWS = 16;
    private static final int MANY_ROWS = 32;
    /** Up to here forward's warps take few rows, so that there are enough of them; measured on an H200. */
    private static final long FEW_ROWS_UP_TO_ELEMENTS = 200_000_000L;
    /** Each warp's two chunks of rows of x and dy. */
    private static final int RING_BYTES = BLOCK_WARPS * 2 * 2 * CHUNK_ROWS * WARP_CHANNELS * 2;

    /** A part of the operation, and what its kernels differ in: the words of their names, in this order. */
    enum Part {
        FORWARD_MAIN(true, false, true, true, true),
        FORWARD_SEAM(true, false, false, false, false),
        BACKWARD_HEAD(true, true, false, false, false),
        BACKWARD_MAIN(true, true, true, true, false),
        BACKWARD_REDUCE(false, true, true, false, false),
        BACKWARD_OWED(false, false, false, false, false),
        BACKWARD_ROUND(false, true, false, false, false),
        CHECK_OFFSETS(false, false, false, false, false);

        private final boolean byMath;
        private final boolean byPolicy;
        private final boolean byTables;
        private final boolean byBias;
        private final boolean byRows;

        Part(boolean byMath, boolean byPolicy, boolean byTables, boolean byBias, boolean byRows) {
            this.byMath = byMath;
            this.byPolicy = byPolicy;
            this.byTables = byTables;
            this.byBias = byBias;
            this.byRows = byRows;
        }

        /** The kernel for a call. */
        private ConvProgram of(ConvMath math, SiluGradPolicy policy, boolean tables, boolean bias, boolean fewRows) {
            return new ConvProgram(
                    this,
                    byMath ? math : null,
                    byPolicy ? policy : null,
                    byTables && tables,
                    byBias && bias,
                    byRows && fewRows);
        }

        private Stream<ConvProgram> programs() {
            List<Boolean> both = List.of(false, true);
            return Stream.of(ConvMath.values())
                    .flatMap(math -> Stream.of(SiluGradPolicy.values())
                            .flatMap(policy -> both.stream().flatMap(tables -> both.stream()
                                    .flatMap(bias -> both.stream().map(few -> of(math, policy, tables, bias, few))))))
                    .distinct();
        }
    }

    /** Every kernel. */
    static final List<ConvProgram> ALL =
            Stream.of(Part.values()).flatMap(Part::programs).toList();

    static ConvProgram forwardMain(Operands in, ConvOptions options, boolean tables) {
        return of(Part.FORWARD_MAIN, in, options, tables);
    }

    static ConvProgram backwardMain(Operands in, ConvOptions options, boolean tables) {
        return of(Part.BACKWARD_MAIN, in, options, tables);
    }

    private static ConvProgram of(Part part, Operands in, ConvOptions options, boolean tables) {
        boolean fewRows = in.x().rows() * in.channels() <= FEW_ROWS_UP_TO_ELEMENTS;
        return part.of(options.math(), options.policy(), tables, in.bias() != null, fewRows);
    }

    static ConvProgram forwardSeam(ConvOptions options) {
        return Part.FORWARD_SEAM.of(options.math(), null, false, false, false);
    }

    static ConvProgram backwardReduce(ConvOptions options, boolean tables) {
        return Part.BACKWARD_REDUCE.of(null, options.policy(), tables, false, false);
    }

    static ConvProgram backwardHead(ConvOptions options) {
        return Part.BACKWARD_HEAD.of(options.math(), options.policy(), false, false, false);
    }

    static ConvProgram backwardOwed() {
        return Part.BACKWARD_OWED.of(null, null, false, false, false);
    }

    /** @param policy that sums of this type are made by */
    static ConvProgram backwardRound(SiluGradPolicy policy) {
        return Part.BACKWARD_ROUND.of(null, policy, false, false, false);
    }

    static ConvProgram checkOffsets() {
        return Part.CHECK_OFFSETS.of(null, null, false, false, false);
    }

    /** The kernel's name, as in sources, logs and reports. */
    String entry() {
        return lower(part)
                + (part.byMath ? "_" + lower(math) : "")
                + (part.byPolicy ? "_" + lower(policy) : "")
                + (part.byTables ? tables ? "_tables" : "_batch" : "")
                + (bias ? "_bias" : "")
                + (part.byRows ? "_" + rowsPerWarp() : "");
    }

    private static String lower(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    /** The source file that holds it, without its ending: the first word of its name says which. */
    String file() {
        String entry = entry();
        return "conv_" + entry.substring(0, entry.indexOf('_'));
    }

    /** Rows that a warp of forward takes. */
    int rowsPerWarp() {
        return fewRows ? FEW_ROWS : MANY_ROWS;
    }

    /** Dynamic shared memory of a block: the sums of its leaves, and the rows that it loads ahead. */
    int sharedBytes() {
        if (part != Part.BACKWARD_MAIN) {
            return 0;
        }
        int leafBytes = 8 * (bias ? 5 : 4) * WARP_CHANNELS * policy.sumType().bytes();
        return leafBytes + RING_BYTES;
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
        return entry().replace('_', '-');
    }
}
