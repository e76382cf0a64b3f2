package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.tree.NodeKey;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * The upper part of a reduction tree, over ranks: makes the root's sums of the nodes that each rank has. Rank r is sent
 * slice r of the channels of all nodes, makes the additions that one rank alone would make, and sends its slice of the
 * root to all, so the root has the same bits on every rank and for any number of them. All of it happens in the device's
 * memory; on a GPU the host waits for none of it.
 *
 * <pre>
 * nodes [n, planes, C] of each rank
 *    | exchange, then additions
 * root's slice r [planes, C / ranks] on rank r
 *    | exchange
 * root [planes, C] on each rank
 * </pre>
 *
 * <p>Serves sums that the convolution does not make, in the tree and the additions of its own: of other layers'
 * gradients, or of the loss. Buffers are kept, and grown when too small. Borrows engine and communicator; closed by its
 * owner after the work that uses it.
 */
public final class NodeReduction implements AutoCloseable {
    private final String label;
    private final ConvEngine engine;
    private final Communicator group;
    private final DType dtype;
    private final long planes;
    private final ChannelSlices slices;
    private final List<Tensor> buffers = new ArrayList<>();
    private long packedTokens = -1;
    private List<List<NodeKey>> keys;
    private UpperTree tree;
    private Tensor arrived;
    private long ownRoom;
    /** Null where a slice needs no copy. */
    private Tensor[] outgoing;

    private Tensor[] rootParts;

    /**
     * @param label names the exchanges; equal on all ranks
     * @param engine of the device that holds the sums
     * @param dtype FP32 or FP64
     * @param planes rows of channels that each node has
     * @param channels C of a plane
     * @param unit ranks' slices are multiples of so many channels; C is one too
     */
    public NodeReduction(
            String label, ConvEngine engine, Communicator group, DType dtype, long planes, long channels, long unit) {
        if (dtype != DType.F32 && dtype != DType.F64) {
            throw new IllegalArgumentException("sums are FP32 or FP64: dtype=" + dtype);
        }
        if (planes < 1) {
            throw new IllegalArgumentException("a node has a plane: planes=" + planes);
        }
        this.label = label;
        this.engine = engine;
        this.group = group;
        this.dtype = dtype;
        this.planes = planes;
        this.slices = new ChannelSlices(channels, unit, group.size());
    }

    /**
     * Sets up the tree of the batches that come next, and makes room for it; at once where it is the one before. On a
     * GPU never while work is captured: what is captured uses its tables.
     *
     * @param tokens tokens that the tree spans
     * @param nodes of each rank in the order in which its sums lie, equal on all ranks; together they cover the tokens
     * @throws IllegalArgumentException if they are nodes of another number of ranks
     * @throws IllegalStateException if they do not add up to one root
     */
    public void prepare(long tokens, List<List<NodeKey>> nodes) {
        if (nodes.size() != group.size()) {
            throw new IllegalArgumentException("nodes are those of all ranks of the group: nodes=" + nodes.size()
                    + " communicatorSize=" + group.size());
        }
        if (tokens == packedTokens && nodes.equals(keys)) {
            return;
        }
        UpperTree next = new UpperTree(tokens, nodes, engine.rowOps());
        if (tree != null) {
            tree.close();
        }
        tree = next;
        packedTokens = tokens;
        keys = List.copyOf(nodes);
        reserve(tree);
    }

    /**
     * Combines all ranks' nodes by the prepared tree; collective.
     *
     * @param nodes dense {@code [n, planes, C]} or, of one plane, {@code [n, C]}: this rank's, in the prepared order
     * @param root dense, {@code planes * C} elements, overwritten: the same bits on every rank. Nothing is written for a
     *     tree of no tokens, where it may have no elements
     * @throws IllegalArgumentException before any exchange, if a tensor has another type, device or size, or the two share
     *     memory; the group ends, as it does after every throw of a call
     */
    public void run(Tensor nodes, Tensor root) {
        try {
            if (tree == null) {
                throw new IllegalStateException("no tree was prepared: call=" + label);
            }
            run(tree, 0, nodes, root);
        } catch (RuntimeException | Error e) {
            group.abort(label + ": " + e.getMessage());
            throw e;
        }
    }

    /** As the public form, by the additions of a tree that somebody else keeps. */
    void run(UpperTree by, long planDigest, Tensor nodes, Tensor root) {
        int rank = group.rank();
        check("nodes", nodes, by.nodes(rank) * planes);
        check("root", root, by.roots() == 0 && root != null && root.elements() == 0 ? 0 : planes);
        ConvChecks.apart("root", root, "nodes", nodes);
        Tensor own = view(nodes, by.nodes(rank) * planes, slices.channels());
        Tensor to = view(root, by.roots() * planes, slices.channels());
        if (group.size() == 1 && by.rows() == 1) {
            copySlice(own, 0, to, 0, slices.channels());
            return;
        }
        reserve(by);
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        for (int peer = 0; peer < group.size(); peer++) {
            Tensor incoming = arrived.rows(by.begin(peer), by.begin(peer + 1));
            if (peer == rank) {
                copySlice(own, slices.begin(rank), byPlanes(incoming), 0, slices.width(rank));
            } else {
                add(sends, peer, packed(own, peer));
                add(receives, peer, incoming);
            }
        }
        exchange(" nodes", planDigest, sends, receives);
        engine.rowOps().add(by.additions(), arrived.rows(0, by.rows()));
        gather(planDigest, byPlanes(arrived.rows(by.root(), by.root() + by.roots())), to);
    }

    private void check(String name, Tensor tensor, long rows) {
        if (tensor == null
                || tensor.dtype() != dtype
                || !tensor.isDense()
                || !tensor.device().equals(engine.device())
                || tensor.elements() != rows * slices.channels()) {
            throw new IllegalArgumentException(
                    name + " must be dense, of the reduction's type, device and size: call=" + label + " " + name + "="
                            + tensor + " dtype=" + dtype + " device=" + engine.device() + " rows=" + rows + " C="
                            + slices.channels());
        }
    }

    private void gather(long planDigest, Tensor mine, Tensor root) {
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        Tensor[] parts = new Tensor[group.size()];
        for (int peer = 0; peer < group.size(); peer++) {
            if (peer == group.rank()) {
                copySlice(mine, 0, root, slices.begin(peer), slices.width(peer));
            } else if (root.rows() > 0) {
                parts[peer] = planes == 1 ? sliceOfOneRow(root, peer) : rootParts[peer];
                add(sends, peer, mine);
                add(receives, peer, parts[peer]);
            }
        }
        exchange(" root", planDigest, sends, receives);
        for (int peer = 0; peer < group.size() && planes > 1; peer++) {
            if (parts[peer] != null) {
                copySlice(parts[peer], 0, root, slices.begin(peer), slices.width(peer));
            }
        }
    }

    /** A peer's slice as one run of memory: where it lies if one row holds it, else copied together. */
    private Tensor packed(Tensor rows, int peer) {
        if (rows.rows() <= 1) {
            return sliceOfOneRow(rows, peer);
        }
        Tensor together = outgoing[peer].rows(0, rows.rows());
        copySlice(rows, slices.begin(peer), together, 0, slices.width(peer));
        return together;
    }

    /** Of one row, or of none. */
    private Tensor sliceOfOneRow(Tensor row, int peer) {
        long width = slices.width(peer);
        long address = row.rows() == 0 ? 0 : row.address() + slices.begin(peer) * dtype.bytes();
        return Tensor.over(
                Memory.borrow(row.device(), address, row.rows() * width * dtype.bytes()), dtype, row.rows(), width);
    }

    private void copySlice(Tensor from, long fromChannel, Tensor to, long toChannel, long width) {
        engine.rowOps().copyColumns(from, fromChannel, to, toChannel, width);
    }

    /** Room for the trees of the greatest batches so far. */
    private void reserve(UpperTree by) {
        long own = by.nodes(group.rank());
        if (arrived != null && by.rows() <= arrived.rows() && own <= ownRoom) {
            return;
        }
        closeBuffers();
        ownRoom = own;
        arrived = allocate(Math.max(by.rows(), 1), planes * slices.width(group.rank()));
        outgoing = new Tensor[group.size()];
        rootParts = new Tensor[group.size()];
        for (int peer = 0; peer < group.size(); peer++) {
            if (peer != group.rank()) {
                outgoing[peer] = own * planes <= 1 ? null : allocate(own * planes, slices.width(peer));
                rootParts[peer] = planes == 1 ? null : allocate(planes, slices.width(peer));
            }
        }
    }

    private Tensor allocate(long rows, long columns) {
        Tensor tensor = engine.allocate(dtype, rows, columns);
        buffers.add(tensor);
        return tensor;
    }

    private void exchange(String what, long planDigest, List<Segment> sends, List<Segment> receives) {
        Call call = new Call(Call.Kind.EXCHANGE, label + what, slices.channels(), dtype, planDigest);
        group.exchange(call, List.copyOf(sends), List.copyOf(receives)).await();
    }

    private static void add(List<Segment> segments, int peer, Tensor tensor) {
        long bytes = tensor.elements() * tensor.dtype().bytes();
        if (bytes > 0) {
            segments.add(new Segment(peer, tensor.address(), bytes));
        }
    }

    /** Rows of all planes of a slice as one row of each plane. */
    private Tensor byPlanes(Tensor rows) {
        return view(rows, rows.rows() * planes, rows.columns() / planes);
    }

    private Tensor view(Tensor tensor, long rows, long columns) {
        long bytes = rows * columns * dtype.bytes();
        return Tensor.over(
                Memory.borrow(tensor.device(), bytes == 0 ? 0 : tensor.address(), bytes), dtype, rows, columns);
    }

    private void closeBuffers() {
        CloseStack.closeAll(buffers);
        buffers.clear();
        arrived = null;
    }

    @Override
    public void close() {
        closeBuffers();
        if (tree != null) {
            tree.close();
            tree = null;
            keys = null;
        }
    }
}
