package dev.kcp.conv.cpu;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.NodeStack;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.TreeSums;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * One call of backward's main program. A task is a block of channels of an aligned range of leaves; it follows the leaves
 * in token order, writes dx, and leaves its largest nodes. The nodes of all ranges of a block are then combined by the
 * same stack, so the additions are those of the tree however the work was cut.
 */
final class BackwardMain {
    /** Leaves of a range where threads share a block of channels; a power of two, so that a range is a whole node. */
    private static final int RANGE_LEAVES = 16;

    private final ShardTables tables;
    private final Operands in;
    private final ConvOptions options;
    private final RowSource rows;
    private final long planes;
    private final long zeros;
    private final Tensor dy;
    private final Tensor dx;
    private final Tensor tail;
    private final Tensor sums;
    private final int channels;
    private final int sumBytes;

    BackwardMain(
            ShardTables tables,
            Operands in,
            ConvOptions options,
            RowSource rows,
            long planes,
            long zeros,
            Tensor dy,
            Tensor dx,
            Tensor tail,
            Tensor sums) {
        this.tables = tables;
        this.in = in;
        this.options = options;
        this.rows = rows;
        this.planes = planes;
        this.zeros = zeros;
        this.dy = dy;
        this.dx = dx;
        this.tail = tail;
        this.sums = sums;
        this.channels = (int) in.channels();
        this.sumBytes = options.policy().sumType().bytes();
    }

    void run(Workers workers, Scratch[] scratch) {
        for (Scratch own : scratch) {
            own.beginSums((long) Taps.PLANES * Scratch.BLOCK_CHANNELS * sumBytes);
        }
        int blocks = (channels + Scratch.BLOCK_CHANNELS - 1) / Scratch.BLOCK_CHANNELS;
        List<List<ShardTables.Share>> ranges = blocks >= 4 * workers.threads() || workers.threads() == 1
                ? List.of(tables.shares())
                : ranges(tables.shares());
        List<List<NodeStack.Entry<Long>>> made = new ArrayList<>();
        for (int i = 0; i < blocks * ranges.size(); i++) {
            made.add(List.of());
        }
        workers.run(blocks * ranges.size(), (worker, task) -> {
            int block = task % blocks;
            made.set(task, range(scratch[worker], block * Scratch.BLOCK_CHANNELS, ranges.get(task / blocks)));
        });
        if (sums != null) {
            workers.run(blocks, (worker, block) -> reduce(made, block, blocks));
        }
    }

    private static List<List<ShardTables.Share>> ranges(List<ShardTables.Share> shares) {
        List<List<ShardTables.Share>> ranges = new ArrayList<>();
        for (int i = 0; i < shares.size(); ) {
            long range = shares.get(i).key().index() / RANGE_LEAVES;
            int j = i;
            while (j < shares.size() && shares.get(j).key().index() / RANGE_LEAVES == range) {
                j++;
            }
            ranges.add(shares.subList(i, j));
            i = j;
        }
        return ranges;
    }

    private List<NodeStack.Entry<Long>> range(Scratch own, int channelBegin, List<ShardTables.Share> shares) {
        int width = Math.min(Scratch.BLOCK_CHANNELS, channels - channelBegin);
        NodeStack<Long> stack = new NodeStack<>(tables.packedTokens(), (left, right) -> {
            long sum = addSums(left, right, width);
            own.giveSums(right);
            return sum;
        });
        for (ShardTables.Share share : shares) {
            long leaf = sums == null ? 0 : own.takeSums();
            for (ShardTables.Run run : share.runs()) {
                follow(own, leaf, channelBegin, width, run);
            }
            if (sums != null) {
                stack.push(share.key(), leaf);
            }
        }
        return stack.entries();
    }

    /** left += right, all planes. */
    private long addSums(long left, long right, int width) {
        for (int plane = 0; plane < Taps.PLANES; plane++) {
            long offset = (long) plane * Scratch.BLOCK_CHANNELS * sumBytes;
            TreeSums.add(options.policy().sumType(), left + offset, right + offset, width);
        }
        return left;
    }

    /** g of the run's rows and of up to three rows after it; from g the leaf's sums and dx. */
    private void follow(Scratch own, long leaf, int channelBegin, int width, ShardTables.Run run) {
        int f = run.fragment();
        int begin = run.begin();
        int count = run.end() - begin;
        int after = dx == null ? 0 : Math.min(ShardTables.HISTORY, tables.end(f) - run.end());
        long taps = planes + channelBegin * 4L;
        long planeBytes = channels * 4L;
        long pitch = width * 4L;
        long g = own.rows();
        rows.window(f, begin, run.end() + after, channelBegin * 2L, own.window);
        if (dy == null) {
            Arrays.fill(own.dy, 0, count + after, zeros);
        } else {
            CpuConvEngine.fillRows(own.dy, dy, begin, count + after, channelBegin * 2L);
        }
        PreactivationRows.run(own.window, count + after, taps, planeBytes, width, g, pitch);
        ActivationRows.gradient(options.policy(), g, pitch, count + after, width, own.dy);
        if (leaf != 0) {
            int valid = rows.validBefore(f, begin);
            long sumPlane = (long) Scratch.BLOCK_CHANNELS * sumBytes;
            LeafRows.add(options.policy(), leaf, sumPlane, width, own.window, valid, count, g, pitch);
        }
        int owedBegin = tables.end(f) - tables.owedRows(f);
        for (int row = Math.max(begin, owedBegin); row < run.end(); row++) {
            long to = tail.rowAddress(tables.tailBegin(f) + row - owedBegin) + channelBegin * 4L;
            HostMemory.copy(g + (row - begin) * pitch, to, pitch);
        }
        if (dx != null) {
            int present = count + after;
            for (int i = 0; i < present; i++) {
                own.g[i] = g + i * pitch;
            }
            int written = Math.max(0, Math.min(count, owedBegin - begin));
            long to = dx.rowAddress(begin) + channelBegin * 2L;
            InputGradientRows.run(own.g, present, written, to, dx.pitchBytes(), taps, planeBytes, width);
        }
    }

    private void reduce(List<List<NodeStack.Entry<Long>>> made, int block, int blocks) {
        int channelBegin = block * Scratch.BLOCK_CHANNELS;
        int width = Math.min(Scratch.BLOCK_CHANNELS, channels - channelBegin);
        NodeStack<Long> stack = new NodeStack<>(tables.packedTokens(), (left, right) -> addSums(left, right, width));
        for (int task = block; task < made.size(); task += blocks) {
            made.get(task).forEach(entry -> stack.push(entry.key(), entry.sums()));
        }
        for (int node = 0; node < stack.entries().size(); node++) {
            long from = stack.entries().get(node).sums();
            for (int plane = 0; plane < in.sumPlanes(); plane++) {
                long to = sums.rowAddress((long) node * in.sumPlanes() + plane) + (long) channelBegin * sumBytes;
                HostMemory.copy(from + (long) plane * Scratch.BLOCK_CHANNELS * sumBytes, to, (long) width * sumBytes);
            }
        }
    }
}
