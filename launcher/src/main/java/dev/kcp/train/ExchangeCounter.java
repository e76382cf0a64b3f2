package dev.kcp.train;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.PendingExchange;
import dev.kcp.comm.Segment;
import java.util.List;

/** A communicator that counts halo exchanges and the bytes this rank sends in them, by the pass they were made in. */
final class ExchangeCounter implements Communicator {
    /** Passes over a layer. */
    enum Pass {
        FORWARD,
        RECOMPUTE,
        BACKWARD
    }

    private final Communicator communicator;
    private final long[] exchanges = new long[Pass.values().length];
    private final long[] sentBytes = new long[Pass.values().length];
    private Pass pass = Pass.FORWARD;

    /** @param communicator the group; still closed by its owner */
    ExchangeCounter(Communicator communicator) {
        this.communicator = communicator;
    }

    /** Counts for this pass from now on. */
    void enter(Pass next) {
        pass = next;
    }

    /** Halo exchanges made in a pass, those in which this rank moved nothing included. */
    long exchanges(Pass of) {
        return exchanges[of.ordinal()];
    }

    /** Bytes that this rank sent in a pass. */
    long sentBytes(Pass of) {
        return sentBytes[of.ordinal()];
    }

    @Override
    public PendingExchange exchange(Call call, List<Segment> sends, List<Segment> receives) {
        if (call.kind() == Call.Kind.HALO_FORWARD || call.kind() == Call.Kind.HALO_BACKWARD) {
            exchanges[pass.ordinal()]++;
            sentBytes[pass.ordinal()] += sends.stream().mapToLong(Segment::bytes).sum();
        }
        return communicator.exchange(call, sends, receives);
    }

    @Override
    public int rank() {
        return communicator.rank();
    }

    @Override
    public int size() {
        return communicator.size();
    }

    @Override
    public String transport() {
        return communicator.transport();
    }

    @Override
    public void allReduceFloats(String label, long address, long elements) {
        communicator.allReduceFloats(label, address, elements);
    }

    @Override
    public void allReduceDoubles(String label, long address, long elements) {
        communicator.allReduceDoubles(label, address, elements);
    }

    @Override
    public List<byte[]> allGather(String label, byte[] mine) {
        return communicator.allGather(label, mine);
    }

    @Override
    public void barrier(String label) {
        communicator.barrier(label);
    }

    @Override
    public Communicator split(int color, int key) {
        return communicator.split(color, key);
    }

    @Override
    public void abort(String reason) {
        communicator.abort(reason);
    }

    @Override
    public void close() {}
}
