package dev.kcp.conv.cpu;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.LeafTable;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.tree.NodeStack;
import dev.kcp.conv.tree.TreeSums;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * One call of backward's main program. A task is a block of channels of an aligned range of leaves; it follows the leaves
 * in token order, writes dx, and leaves its largest nodes. The nodes of all ranges of a block are then combined by the
 * same stack, so the additions are those of the tree however the work was cut.
 */
final class BackwardMain {
    /** Leaves of a range where threads share a block of channels; a power of two, so that a range is a whole node. */
    private static final int RANGE_LEAVES = 16;

    final ShardTables tables;
    private final Operands in;
    private final ConvOptions options;
    final RowSource rows;
    final long planes;
    private final long zeros;
    private final Tensor dy;
    final Tensor dx;
    final Tensor tail;
    private final Tensor sums;
    final int channels;
    private final int sumBytes;

    BackwardMain(
            ShardTables tables,
            Operands in,
            ConvOptions options,
            CallSpace space,
            Tensor dy,
            Tensor dx,
            Tensor tail,
            Tensor sums) {
        this.tables = tables;
        this.in = in;
        this.options = options;
        this.rows = RowSource.of(tables, in, space.zeros());
        this.planes = space.planes();
        this.zeros = space.zeros();
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
        List<List<LeafTable.Share>> ranges = blocks >= 4 * workers.threads() || workers.threads() == 1
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

    private static List<List<LeafTable.Share>> ranges(List<LeafTable.Share> shares) {
        List<List<LeafTable.Share>> ranges = new ArrayList<>();
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

    private List<NodeStack.Entry<Long>> range(Scratch own, int channelBegin, List<LeafTable.Share> shares) {
        int width = Math.min(Scratch.BLOCK_CHANNELS, channels - channelBegin);
        NodeStack<Long> stack = new NodeStack<>(tables.packedTokens(), (left, right) -> {
            long sum = addSums(left, right, width);
            own.giveSums(right);
            return sum;
        });
        BackwardStream stream = new BackwardStream(this, own, channelBegin, width);
        for (LeafTable.Share share : shares) {
            long leaf = sums == null ? 0 : own.takeSums();
            for (LeafTable.Run run : share.runs()) {
                stream.follow(run, leaf);
            }
            if (sums != null) {
                stack.push(share.key(), leaf);
            }
        }
        stream.finish();
        return stack.entries();
    }

    /** left += right, all planes. */
    private long addSums(long left, long right, int width) {
        for (int plane = 0; plane < Taps.PLANES; plane++) {
            long offset = plane * sumPlaneBytes();
            TreeSums.add(options.policy().sumType(), left + offset, right + offset, width);
        }
        return left;
    }

    SiluGradPolicy policy() {
        return options.policy();
    }

    /** Distance of two planes of a block's sums. */
    long sumPlaneBytes() {
        return (long) Scratch.BLOCK_CHANNELS * sumBytes;
    }

    /** Fills in the addresses of rows of dy, or of zeros where there is none. */
    void fillGradientRows(long[] addresses, int begin, int count, long columnBytes) {
        ForwardTiles.fillGradientRows(addresses, dy, zeros, begin, count, columnBytes);
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
                HostMemory.copy(from + plane * sumPlaneBytes(), to, (long) width * sumBytes);
            }
        }
    }
}
