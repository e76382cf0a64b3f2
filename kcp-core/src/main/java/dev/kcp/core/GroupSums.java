package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.Segment;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.NodeKey;
import dev.kcp.conv.NodeStack;
import dev.kcp.conv.TreeSums;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The upper part of the reduction tree, over ranks. Each rank sends its nodes cut by channels: slice r of all nodes goes to
 * rank r, which makes the same additions that one rank alone would make; then the slices of the root are gathered.
 */
final class GroupSums {
    /** One node of one rank, as the slice's owner sees it. */
    private record Arrival(NodeKey key, long address) {}

    private GroupSums() {}

    /** Payload bytes that one rank sends in {@link #reduce} of one micro-step. */
    static long sentBytes(long channels, int rank, int ranks, int nodes, int planes, DType sumType) {
        Slices slices = new Slices(channels, ranks, sumType.bytes());
        long nodeElements = nodes * (channels - slices.width(rank));
        long rootElements = (ranks - 1L) * slices.width(rank);
        return planes * sumType.bytes() * (nodeElements + rootElements);
    }

    /** Combines each micro-step over the group, adds them in order, and rounds once. */
    static Gradients reduce(String label, List<PartialGradients> microSteps, DType dweightType, DType dbiasType) {
        PartialGradients first = microSteps.getFirst();
        long channels = first.sums().columns();
        Tensor total = null;
        try {
            for (PartialGradients step : microSteps) {
                Tensor root = root(label, step);
                if (total == null || total.extent(0) == 0) {
                    close(total);
                    total = root;
                } else {
                    if (root.extent(0) > 0) {
                        TreeSums.add(root.dtype(), total.address(), root.address(), root.elements());
                    }
                    root.close();
                }
            }
            Tensor dweight = Tensor.zeros(dweightType, channels, 4);
            Tensor dbias = first.withBias() ? Tensor.zeros(dbiasType, channels) : null;
            TreeSums.store(total, dweight, dbias);
            return new Gradients(null, dweight, dbias);
        } finally {
            close(total);
        }
    }

    private static void close(Tensor tensor) {
        if (tensor != null) {
            tensor.close();
        }
    }

    /** The root's sums, {@code [1, planes, C]}, equal on all ranks; {@code [0, planes, C]} for a batch without tokens. */
    private static Tensor root(String label, PartialGradients step) {
        KcpContext context = step.context();
        Communicator group = context.communicator();
        Tensor sums = step.sums();
        int rank = group.rank();
        int planes = (int) sums.extent(1);
        Slices slices = new Slices(sums.columns(), group.size(), sums.dtype().bytes());
        boolean empty = context.partition().cuSeqlens().tokens() == 0;
        Tensor root = Tensor.zeros(sums.dtype(), empty ? 0 : 1, planes, sums.columns());
        List<Tensor> buffers = new ArrayList<>();
        try {
            List<Segment> sends = new ArrayList<>();
            List<Segment> receives = new ArrayList<>();
            List<Arrival> arrivals = new ArrayList<>();
            for (int peer = 0; peer < group.size(); peer++) {
                List<NodeKey> theirs = context.nodes().get(peer);
                Tensor incoming = Tensor.zeros(sums.dtype(), theirs.size(), planes, slices.width(rank));
                buffers.add(incoming);
                for (int node = 0; node < theirs.size(); node++) {
                    arrivals.add(new Arrival(theirs.get(node), incoming.rowAddress((long) node * planes)));
                }
                if (peer == rank) {
                    pack(sums, slices, rank, incoming);
                } else {
                    Tensor outgoing = Tensor.zeros(sums.dtype(), sums.extent(0), planes, slices.width(peer));
                    buffers.add(outgoing);
                    pack(sums, slices, peer, outgoing);
                    sends.add(segment(peer, outgoing));
                    receives.add(segment(peer, incoming));
                }
            }
            Call call = new Call(
                    Call.Kind.EXCHANGE,
                    label + " reduceGradients nodes",
                    sums.columns(),
                    sums.dtype(),
                    context.digest());
            group.exchange(call, sends, receives).await();
            Tensor mine = Tensor.zeros(sums.dtype(), planes, slices.width(rank));
            buffers.add(mine);
            if (!empty) {
                evaluate(context, arrivals, mine);
            }
            gather(label, context, slices, mine, root, buffers);
            return root;
        } catch (RuntimeException e) {
            root.close();
            throw e;
        } finally {
            buffers.forEach(Tensor::close);
        }
    }

    private static void evaluate(KcpContext context, List<Arrival> arrivals, Tensor mine) {
        arrivals.sort(Comparator.comparingLong(arrival -> arrival.key().begin()));
        NodeStack<Long> upper = new NodeStack<>(context.partition().cuSeqlens().tokens(), (left, right) -> {
            TreeSums.add(mine.dtype(), left, right, mine.elements());
            return left;
        });
        arrivals.forEach(arrival -> upper.pushFromGroup(arrival.key(), arrival.address()));
        upper.closeLeaf();
        if (upper.entries().size() != 1) {
            throw new IllegalStateException(
                    "the tree did not close: roots=" + upper.entries().size());
        }
        HostMemory.copy(
                upper.entries().getFirst().sums(),
                mine.address(),
                mine.elements() * mine.dtype().bytes());
    }

    private static void gather(
            String label, KcpContext context, Slices slices, Tensor mine, Tensor root, List<Tensor> buffers) {
        Communicator group = context.communicator();
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        List<Tensor> parts = new ArrayList<>();
        for (int peer = 0; peer < group.size(); peer++) {
            if (peer == group.rank()) {
                parts.add(mine);
            } else {
                Tensor part = Tensor.zeros(mine.dtype(), mine.rows(), slices.width(peer));
                buffers.add(part);
                parts.add(part);
                sends.add(segment(peer, mine));
                receives.add(segment(peer, part));
            }
        }
        Call call = new Call(
                Call.Kind.EXCHANGE, label + " reduceGradients root", root.columns(), root.dtype(), context.digest());
        group.exchange(call, sends, receives).await();
        for (int peer = 0; peer < parts.size() && root.extent(0) > 0; peer++) {
            for (int plane = 0; plane < mine.rows(); plane++) {
                HostMemory.copy(
                        parts.get(peer).rowAddress(plane),
                        root.rowAddress(plane) + slices.beginBytes(peer),
                        slices.width(peer) * root.dtype().bytes());
            }
        }
    }

    private static Segment segment(int peer, Tensor tensor) {
        return new Segment(
                peer, tensor.address(), tensor.elements() * tensor.dtype().bytes());
    }

    private static void pack(Tensor sums, Slices slices, int peer, Tensor into) {
        for (long row = 0; row < sums.rows(); row++) {
            HostMemory.copy(
                    sums.rowAddress(row) + slices.beginBytes(peer),
                    into.rowAddress(row),
                    slices.width(peer) * sums.dtype().bytes());
        }
    }

    /** Channels cut evenly over ranks. */
    private record Slices(long channels, int ranks, int elementBytes) {
        long begin(int rank) {
            return channels * rank / ranks;
        }

        long width(int rank) {
            return begin(rank + 1) - begin(rank);
        }

        long beginBytes(int rank) {
            return begin(rank) * elementBytes;
        }
    }
}
