package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.RowOps;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * The upper part of the reduction tree, over ranks. Each rank sends its nodes cut by channels: slice r of all nodes goes to
 * rank r, which makes the same additions that one rank alone would make; then the slices of the root are gathered. All of
 * it happens in the device's memory; on a GPU the host waits for none of it.
 */
final class GroupSums {
    private GroupSums() {}

    /** Payload bytes that one rank sends in {@link #reduce} of one micro-step. */
    static long sentBytes(long channels, int rank, int ranks, int nodes, int planes, DType sumType) {
        Slices slices = new Slices(channels, ranks);
        long nodeElements = nodes * (channels - slices.width(rank));
        long rootElements = (ranks - 1L) * slices.width(rank);
        return planes * sumType.bytes() * (nodeElements + rootElements);
    }

    /** Combines each micro-step over the group, adds them in order, and rounds once. */
    static Gradients reduce(String label, List<PartialGradients> microSteps, DType dweightType, DType dbiasType) {
        PartialGradients first = microSteps.getFirst();
        ConvEngine engine = first.context().engine();
        long channels = first.sums().columns();
        long planes = first.sums().extent(1);
        DType sumType = first.sums().dtype();
        int withTokens = (int) microSteps.stream().filter(GroupSums::hasTokens).count();
        try (Tensor roots = engine.allocate(sumType, withTokens, planes * channels)) {
            int made = 0;
            for (PartialGradients step : microSteps) {
                long at = hasTokens(step) ? made++ : 0;
                combine(label, step, view(roots, at, sumType, hasTokens(step) ? planes : 0, channels));
            }
            addInOrder(engine, roots);
            Tensor dweight = engine.allocate(dweightType, channels, 4);
            Tensor dbias = first.withBias() ? engine.allocate(dbiasType, channels) : null;
            engine.round(view(roots, 0, sumType, Math.min(1, withTokens), planes, channels), dweight, dbias);
            return new Gradients(null, dweight, dbias);
        }
    }

    private static boolean hasTokens(PartialGradients step) {
        return step.context().partition().cuSeqlens().tokens() > 0;
    }

    private static Tensor view(Tensor roots, long row, DType dtype, long... shape) {
        long address = roots.rows() == 0 ? 0 : roots.rowAddress(row);
        long bytes = roots.columns() * dtype.bytes();
        return Tensor.over(Memory.borrow(roots.device(), address, address == 0 ? 0 : bytes), dtype, shape);
    }

    private static void addInOrder(ConvEngine engine, Tensor roots) {
        int[] pairs = new int[2 * Math.max(0, (int) roots.rows() - 1)];
        for (int i = 0; i < pairs.length / 2; i++) {
            pairs[2 * i + 1] = i + 1;
        }
        try (RowOps.Table additions = engine.rowOps().additions(pairs)) {
            engine.rowOps().add(additions, roots);
        }
    }

    /**
     * Adds one micro-step's nodes of all ranks.
     *
     * @param root {@code [planes, C]}, equal on all ranks afterwards; {@code [0, C]} for a batch without tokens
     */
    private static void combine(String label, PartialGradients step, Tensor root) {
        KcpContext context = step.context();
        ConvEngine engine = context.engine();
        Communicator group = context.communicator();
        Tensor sums = step.sums();
        long planes = sums.extent(1);
        int rank = group.rank();
        Slices slices = new Slices(sums.columns(), group.size());
        UpperTree tree = context.upperTree();
        List<Tensor> buffers = new ArrayList<>();
        try {
            Tensor arrived = keep(buffers, engine.allocate(sums.dtype(), tree.rows(), planes * slices.width(rank)));
            List<Segment> sends = new ArrayList<>();
            List<Segment> receives = new ArrayList<>();
            for (int peer = 0; peer < group.size(); peer++) {
                Tensor incoming = arrived.rows(tree.begin(peer), tree.begin(peer + 1));
                if (peer == rank) {
                    engine.rowOps()
                            .copyColumns(sums, slices.begin(rank), byPlanes(incoming, planes), 0, slices.width(rank));
                } else {
                    Tensor outgoing = keep(buffers, engine.allocate(sums.dtype(), sums.rows(), slices.width(peer)));
                    engine.rowOps().copyColumns(sums, slices.begin(peer), outgoing, 0, slices.width(peer));
                    sends.add(segment(peer, outgoing));
                    receives.add(segment(peer, incoming));
                }
            }
            group.exchange(call(label + " reduceGradients nodes", context, sums), sends, receives)
                    .await();
            engine.rowOps().add(tree.additions(), arrived);
            Tensor mine = byPlanes(arrived.rows(tree.root(), tree.root() + Math.min(1, root.rows())), planes);
            gather(label, context, sums, slices, mine, root, buffers);
        } finally {
            buffers.forEach(Tensor::close);
        }
    }

    private static void gather(
            String label,
            KcpContext context,
            Tensor sums,
            Slices slices,
            Tensor mine,
            Tensor root,
            List<Tensor> buffers) {
        ConvEngine engine = context.engine();
        Communicator group = context.communicator();
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        List<Tensor> parts = new ArrayList<>();
        for (int peer = 0; peer < group.size(); peer++) {
            if (peer == group.rank()) {
                parts.add(mine);
            } else {
                Tensor part = keep(buffers, engine.allocate(sums.dtype(), root.rows(), slices.width(peer)));
                parts.add(part);
                sends.add(segment(peer, mine));
                receives.add(segment(peer, part));
            }
        }
        group.exchange(call(label + " reduceGradients root", context, sums), sends, receives)
                .await();
        for (int peer = 0; peer < parts.size(); peer++) {
            engine.rowOps().copyColumns(parts.get(peer), 0, root, slices.begin(peer), slices.width(peer));
        }
    }

    private static Call call(String label, KcpContext context, Tensor sums) {
        return new Call(Call.Kind.EXCHANGE, label, sums.columns(), sums.dtype(), context.digest());
    }

    private static Tensor keep(List<Tensor> buffers, Tensor tensor) {
        buffers.add(tensor);
        return tensor;
    }

    /** Rows of all planes of a slice as one row of each plane. */
    private static Tensor byPlanes(Tensor rows, long planes) {
        long address = rows.elements() == 0 ? 0 : rows.address();
        long bytes = rows.elements() * rows.dtype().bytes();
        return Tensor.over(
                Memory.borrow(rows.device(), address, bytes),
                rows.dtype(),
                rows.rows() * planes,
                rows.columns() / planes);
    }

    private static Segment segment(int peer, Tensor tensor) {
        long bytes = tensor.elements() * tensor.dtype().bytes();
        return new Segment(peer, bytes == 0 ? 0 : tensor.address(), bytes);
    }

    /** Channels cut evenly over ranks. */
    private record Slices(long channels, int ranks) {
        long begin(int rank) {
            return channels * rank / ranks;
        }

        long width(int rank) {
            return begin(rank + 1) - begin(rank);
        }
    }
}
