package dev.kcp.comm;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/**
 * The slices of an all-reduce. Rank r owns elements [r*E/R, (r+1)*E/R): it gets them from all ranks, sums in rank
 * order, and sends the sum to all. So each element is summed once, on one rank, in one order.
 */
final class SumSlices {
    private final int ranks;
    private final int rank;
    private final DType dtype;
    private final long address;
    private final long elements;

    SumSlices(int ranks, int rank, DType dtype, long address, long elements) {
        this.ranks = ranks;
        this.rank = rank;
        this.dtype = dtype;
        this.address = address;
        this.elements = elements;
    }

    private long begin(int owner) {
        // As floor(owner * E / R), without a product that could overflow.
        return elements / ranks * owner + elements % ranks * owner / ranks;
    }

    private long bytes(int owner) {
        return (begin(owner + 1) - begin(owner)) * dtype.bytes();
    }

    private List<MemorySegment> slice(int owner) {
        return bytes(owner) == 0
                ? List.of()
                : List.of(HostMemory.ALL.asSlice(address + begin(owner) * dtype.bytes(), bytes(owner)));
    }

    /** Room for the own slice as every rank has it. */
    long scratchBytes() {
        return bytes(rank) * ranks;
    }

    List<List<MemorySegment>> toOwners() {
        List<List<MemorySegment>> outgoing = new ArrayList<>();
        for (int peer = 0; peer < ranks; peer++) {
            outgoing.add(peer == rank ? List.of() : slice(peer));
        }
        return outgoing;
    }

    Sink[] fromPeers(MemorySegment room) {
        Sink[] sinks = new Sink[ranks];
        for (int peer = 0; peer < ranks && bytes(rank) > 0; peer++) {
            sinks[peer] = peer == rank ? null : Sink.into(List.of(part(room, peer)));
        }
        return sinks;
    }

    private MemorySegment part(MemorySegment room, int peer) {
        return room.asSlice(bytes(rank) * peer, bytes(rank));
    }

    List<List<MemorySegment>> toPeers() {
        List<List<MemorySegment>> outgoing = new ArrayList<>();
        for (int peer = 0; peer < ranks; peer++) {
            outgoing.add(peer == rank ? List.of() : slice(rank));
        }
        return outgoing;
    }

    Sink[] fromOwners() {
        Sink[] sinks = new Sink[ranks];
        for (int owner = 0; owner < ranks; owner++) {
            sinks[owner] = owner == rank || bytes(owner) == 0 ? null : Sink.into(slice(owner));
        }
        return sinks;
    }

    /** Sums the own slice in rank order; the sum replaces this rank's share. */
    void sumOwn(MemorySegment room) {
        if (bytes(rank) == 0 || ranks == 1) {
            return;
        }
        MemorySegment own = slice(rank).getFirst();
        MemorySegment.copy(own, 0, part(room, rank), 0, own.byteSize());
        MemorySegment.copy(part(room, 0), 0, own, 0, own.byteSize());
        for (int peer = 1; peer < ranks; peer++) {
            if (dtype == DType.F32) {
                addFloats(own, part(room, peer));
            } else {
                addDoubles(own, part(room, peer));
            }
        }
    }

    private static void addFloats(MemorySegment sum, MemorySegment term) {
        for (long at = 0; at < sum.byteSize(); at += Float.BYTES) {
            float total =
                    sum.get(ValueLayout.JAVA_FLOAT_UNALIGNED, at) + term.get(ValueLayout.JAVA_FLOAT_UNALIGNED, at);
            sum.set(ValueLayout.JAVA_FLOAT_UNALIGNED, at, total);
        }
    }

    private static void addDoubles(MemorySegment sum, MemorySegment term) {
        for (long at = 0; at < sum.byteSize(); at += Double.BYTES) {
            double total =
                    sum.get(ValueLayout.JAVA_DOUBLE_UNALIGNED, at) + term.get(ValueLayout.JAVA_DOUBLE_UNALIGNED, at);
            sum.set(ValueLayout.JAVA_DOUBLE_UNALIGNED, at, total);
        }
    }
}
