package dev.kcp.core;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.RowOps;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.List;

/** dweight and dbias of all ranks: {@link NodeReduction} of each micro-step, then sums in their order. */
final class GroupSums {
    private GroupSums() {}

    /** Payload bytes that one rank sends in {@link #reduce} of one micro-step. */
    static long sentBytes(long channels, int rank, int ranks, int nodes, int planes, DType sumType) {
        ChannelSlices slices = new ChannelSlices(channels, 1, ranks);
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

    /** @param root {@code [planes, C]}, equal on all ranks afterwards; {@code [0, C]} for a batch without tokens */
    private static void combine(String label, PartialGradients step, Tensor root) {
        KcpContext context = step.context();
        Tensor sums = step.sums();
        try (NodeReduction upper = new NodeReduction(
                label + " reduceGradients",
                context.engine(),
                context.communicator(),
                sums.dtype(),
                sums.extent(1),
                sums.columns(),
                1)) {
            upper.run(context.upperTree(), context.digest(), sums, root);
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
}
