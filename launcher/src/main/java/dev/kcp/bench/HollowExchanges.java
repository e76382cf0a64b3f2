package dev.kcp.bench;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.CallRecorder;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
import dev.kcp.comm.PendingAgreement;
import dev.kcp.comm.PendingExchange;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/**
 * A communicator whose exchanges of some kinds move nothing: on a GPU they order the streams as real ones do, on the host
 * they are over at once. What is left of a step's time with it is what the rows themselves do not cost. A diagnostic:
 * results are wrong.
 */
final class HollowExchanges implements Communicator {
    /** Exchanges of halo rows. */
    static final Set<Call.Kind> HALO = EnumSet.of(Call.Kind.HALO_FORWARD, Call.Kind.HALO_BACKWARD);

    /** All exchanges. */
    static final Set<Call.Kind> ALL = EnumSet.of(Call.Kind.HALO_FORWARD, Call.Kind.HALO_BACKWARD, Call.Kind.EXCHANGE);

    private final Communicator real;
    private final Set<Call.Kind> hollow;
    private final Streams streams;
    private final List<Segment> recorded = new ArrayList<>();

    /** The streams of real exchanges on a GPU, and the events between them. */
    private record Streams(CudaStream compute, CudaStream transfers, CudaEvent ready, CudaEvent done) {
        static Streams of(CudaStream compute) {
            return new Streams(
                    compute,
                    CudaStream.createUrgent(compute.device()),
                    CudaEvent.untimed(compute.device()),
                    CudaEvent.untimed(compute.device()));
        }

        PendingExchange exchange(LongConsumer behind) {
            ready.record(compute);
            ready.holdBack(transfers);
            if (behind != null) {
                behind.accept(transfers.handle());
            }
            done.record(transfers);
            return () -> done.holdBack(compute);
        }

        void close() {
            CloseStack.closeAll(transfers, done, ready, transfers::synchronize);
        }
    }

    /**
     * @param engine of the communicator's device
     * @param hollow kinds that move nothing; others are the real communicator's
     */
    HollowExchanges(Communicator real, ConvEngine engine, Set<Call.Kind> hollow) {
        this.real = real;
        this.hollow = Set.copyOf(hollow);
        streams = engine instanceof CudaConvEngine cuda ? Streams.of(cuda.stream()) : null;
    }

    @Override
    public PendingExchange exchange(Call call, LongConsumer behind, List<Segment> sends, List<Segment> receives) {
        if (!hollow.contains(call.kind())) {
            return real.exchange(call, behind, sends, receives);
        }
        if (streams != null) {
            if (streams.compute().isRecording()) {
                recorded.addAll(receives);
            }
            return streams.exchange(behind);
        }
        return () -> {
            if (behind != null) {
                behind.accept(0);
            }
        };
    }

    /**
     * Zeros, once, the memory into which a record that still stands receives nothing: what lies there otherwise may be no
     * finite number, and a step that left those does less work.
     */
    void clearRecorded() {
        for (Segment segment : recorded) {
            streams.compute().fill(segment.address(), (byte) 0, segment.bytes());
        }
        recorded.clear();
    }

    @Override
    public int rank() {
        return real.rank();
    }

    @Override
    public int size() {
        return real.size();
    }

    @Override
    public int worldRank() {
        return real.worldRank();
    }

    @Override
    public String transport() {
        return real.transport();
    }

    @Override
    public Device device() {
        return real.device();
    }

    @Override
    public long queue() {
        return real.queue();
    }

    @Override
    public Communicator host() {
        return real.host();
    }

    @Override
    public void allReduce(String label, DType dtype, long address, long elements) {
        real.allReduce(label, dtype, address, elements);
    }

    @Override
    public List<byte[]> allGather(String label, byte[] mine) {
        return real.allGather(label, mine);
    }

    @Override
    public void barrier(String label) {
        real.barrier(label);
    }

    @Override
    public Communicator split(int color, int key) {
        return real.split(color, key);
    }

    @Override
    public PendingAgreement agree(String what, String statement) {
        return real.agree(what, statement);
    }

    @Override
    public List<Integer> lateRanks() {
        return real.lateRanks();
    }

    @Override
    public CallRecorder recorder() {
        return real.recorder();
    }

    @Override
    public CommunicatorStats stats() {
        return real.stats();
    }

    @Override
    public void checkAlive() {
        real.checkAlive();
    }

    @Override
    public void abort(KcpException.Code code, String message) {
        real.abort(code, message);
    }

    @Override
    public void onFailure(Consumer<KcpException> listener) {
        real.onFailure(listener);
    }

    /** Closes its stream; the real communicator stays open. */
    @Override
    public void close() {
        if (streams != null) {
            streams.close();
        }
    }
}
