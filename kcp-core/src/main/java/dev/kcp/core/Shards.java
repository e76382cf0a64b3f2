package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvChecks;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/** Moves rows between a packed batch {@code [S, C]} and the shards of its ranks, in host memory. */
public final class Shards {
    private Shards() {}

    /** Copies a rank's tokens out of the packed batch, into dense or pitched rows of {@code local}. */
    public static void take(Partition partition, int rank, Tensor packed, Tensor local) {
        move(partition, rank, packed, local, true);
    }

    /** Copies a rank's rows back to their places in the packed batch. */
    public static void put(Partition partition, int rank, Tensor local, Tensor packed) {
        move(partition, rank, packed, local, false);
    }

    private static void move(Partition partition, int rank, Tensor packed, Tensor local, boolean take) {
        check(partition, rank, packed, local);
        long rowBytes = local.columns() * local.dtype().bytes();
        long row = 0;
        for (Fragment fragment : partition.fragments(rank)) {
            long place = partition.packedBegin(fragment);
            for (int i = 0; i < fragment.length(); i++, row++, place++) {
                if (take) {
                    HostMemory.copy(packed.rowAddress(place), local.rowAddress(row), rowBytes);
                } else {
                    HostMemory.copy(local.rowAddress(row), packed.rowAddress(place), rowBytes);
                }
            }
        }
    }

    private static void check(Partition partition, int rank, Tensor packed, Tensor local) {
        partition.checkRank(rank);
        checkOnHost("packed", packed);
        checkOnHost("local", local);
        ConvChecks.apart("local", local, "packed", packed);
        if (packed.dtype() != local.dtype() || packed.columns() != local.columns()) {
            throw new IllegalArgumentException("rows differ: packed=" + packed + " local=" + local);
        }
        if (packed.rows() < partition.cuSeqlens().tokens() || local.rows() < partition.tokens(rank)) {
            throw new IllegalArgumentException("too few rows: packed=" + packed + " local=" + local + " tokens="
                    + partition.cuSeqlens().tokens() + " localTokens=" + partition.tokens(rank));
        }
    }

    private static void checkOnHost(String name, Tensor tensor) {
        if (tensor == null || !tensor.device().equals(Device.CPU)) {
            throw new IllegalArgumentException("rows are moved in host memory: " + name + "=" + tensor);
        }
    }

    /**
     * Gathers all ranks' dense rows on rank 0. A collective call.
     *
     * @param local this rank's rows
     * @param packed on rank 0 where they go; null on the others
     * @throws IllegalArgumentException before any exchange, if the partition is for another group or a tensor has another
     *     type, device or size; the group ends, as it does after every throw of a call
     */
    public static void gather(
            Communicator communicator, Partition partition, String label, Tensor local, Tensor packed) {
        try {
            checkGather(communicator, partition, local, packed);
            gatherChecked(communicator, partition, label, local, packed);
        } catch (RuntimeException | Error e) {
            communicator.abort(label + ": " + e.getMessage());
            throw e;
        }
    }

    private static void checkGather(Communicator communicator, Partition partition, Tensor local, Tensor packed) {
        int rank = communicator.rank();
        if (partition.ranks() != communicator.size()) {
            throw new IllegalArgumentException("the partition is for another group: partitionRanks=" + partition.ranks()
                    + " communicatorSize=" + communicator.size());
        }
        if (rank == 0) {
            check(partition, 0, packed, local);
            return;
        }
        checkOnHost("local", local);
        if (!local.isDense() || local.rows() < partition.tokens(rank)) {
            throw new IllegalArgumentException("a rank gives all its rows, without gaps: local=" + local + " tokens="
                    + partition.tokens(rank) + " rank=" + rank);
        }
    }

    private static void gatherChecked(
            Communicator communicator, Partition partition, String label, Tensor local, Tensor packed) {
        long rowBytes = local.columns() * local.dtype().bytes();
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        List<Tensor> arrived = new ArrayList<>();
        try {
            if (communicator.rank() == 0) {
                for (int peer = 1; peer < communicator.size(); peer++) {
                    Tensor rows = Tensor.zeros(local.dtype(), partition.tokens(peer), local.columns());
                    arrived.add(rows);
                    receives.add(new Segment(peer, rows.address(), rows.rows() * rowBytes));
                }
            } else {
                long rows = partition.tokens(communicator.rank());
                sends.add(new Segment(0, local.rows(0, rows).segment().address(), rows * rowBytes));
            }
            Call call = new Call(Call.Kind.EXCHANGE, label, local.columns(), local.dtype(), partition.digest());
            communicator.exchange(call, sends, receives).await();
            if (communicator.rank() == 0) {
                put(partition, 0, local, packed);
                for (int peer = 1; peer < communicator.size(); peer++) {
                    put(partition, peer, arrived.get(peer - 1), packed);
                }
            }
        } finally {
            CloseStack.closeAll(arrived);
        }
    }
}
