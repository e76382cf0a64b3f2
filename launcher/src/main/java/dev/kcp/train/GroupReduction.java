package dev.kcp.train;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.Segment;
import dev.kcp.conv.NodeKey;
import dev.kcp.conv.NodeStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The upper part of the tree, over ranks, for one buffer of sums: rank r is sent slice r of every rank's nodes, makes the
 * additions that one rank alone would make, and sends its slice of the root to all. Buffers are kept and grown.
 */
final class GroupReduction implements AutoCloseable {
    /** A node's slice as its owner sees it. */
    private record Arrival(NodeKey key, Tensor slice) {}

    private final String label;
    private final TrainEngine engine;
    private final Communicator group;
    private final DType dtype;
    private final long elements;
    private final long unit;
    private Tensor received;

    /**
     * @param elements of one node
     * @param unit slices are multiples of so many elements, which divides {@code elements}
     */
    GroupReduction(String label, TrainEngine engine, Communicator group, DType dtype, long elements, long unit) {
        this.label = label;
        this.engine = engine;
        this.group = group;
        this.dtype = dtype;
        this.elements = elements;
        this.unit = unit;
    }

    /** Makes room for other ranks' nodes. */
    void reserve(TilePlan plan) {
        long nodes = 0;
        for (int peer = 0; peer < group.size(); peer++) {
            nodes += peer == group.rank() ? 0 : plan.ranks().get(peer).nodes().size();
        }
        if (received == null || nodes > received.rows()) {
            close();
            received = engine.allocate(dtype, Math.max(nodes, 1), Math.max(width(group.rank()), 1));
        }
    }

    /**
     * Combines all ranks' nodes; collective.
     *
     * @param nodes {@code [nodes, elements]}, rows of this rank in the plan's order; what stands there is lost
     * @param root {@code [elements]}, the same bits on every rank
     */
    void run(TilePlan plan, Tensor nodes, Tensor root) {
        int rank = group.rank();
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        List<Arrival> arrivals = new ArrayList<>();
        int receivedRow = 0;
        for (int peer = 0; peer < group.size(); peer++) {
            List<Tiles.Node> theirs = plan.ranks().get(peer).nodes();
            for (int node = 0; node < theirs.size(); node++) {
                Tensor slice;
                if (peer == rank) {
                    slice = slice(nodes.rowAddress(node), rank);
                } else {
                    slice = view(received.rowAddress(receivedRow++), width(rank));
                    receives.add(segment(peer, slice));
                }
                arrivals.add(new Arrival(theirs.get(node).key(), slice));
            }
            for (int node = 0; peer != rank && node < nodes.rows(); node++) {
                sends.add(segment(peer, slice(nodes.rowAddress(node), peer)));
            }
        }
        exchange("nodes", sends, receives);
        if (width(rank) > 0) {
            engine.copy(evaluate(plan, arrivals), slice(root.address(), rank));
        }
        sends.clear();
        receives.clear();
        for (int peer = 0; peer < group.size(); peer++) {
            if (peer != rank) {
                sends.add(segment(peer, slice(root.address(), rank)));
                receives.add(segment(peer, slice(root.address(), peer)));
            }
        }
        exchange("root", sends, receives);
    }

    private Tensor evaluate(TilePlan plan, List<Arrival> arrivals) {
        arrivals.sort(Comparator.comparingLong(arrival -> arrival.key().begin()));
        NodeStack<Tensor> upper = new NodeStack<>(plan.treeTokens(), (left, right) -> {
            engine.add(left, right);
            return left;
        });
        arrivals.forEach(arrival -> upper.pushFromGroup(arrival.key(), arrival.slice()));
        upper.closeLeaf();
        if (upper.entries().size() != 1) {
            throw new IllegalStateException("the tree did not close: call=" + label + " roots="
                    + upper.entries().size());
        }
        return upper.entries().getFirst().sums();
    }

    private void exchange(String what, List<Segment> sends, List<Segment> receives) {
        Call call = new Call(Call.Kind.EXCHANGE, label + " " + what, elements, dtype, 0);
        group.exchange(call, List.copyOf(sends), List.copyOf(receives)).await();
    }

    private Tensor slice(long rowAddress, int rank) {
        return view(rowAddress + begin(rank) * dtype.bytes(), width(rank));
    }

    private Tensor view(long address, long count) {
        return Tensor.over(Memory.borrow(received.device(), address, count * dtype.bytes()), dtype, count);
    }

    private Segment segment(int peer, Tensor tensor) {
        return new Segment(peer, tensor.address(), tensor.elements() * dtype.bytes());
    }

    private long begin(int rank) {
        return elements / unit * rank / group.size() * unit;
    }

    private long width(int rank) {
        return begin(rank + 1) - begin(rank);
    }

    @Override
    public void close() {
        if (received != null) {
            received.close();
            received = null;
        }
    }
}
