package dev.kcp.bench;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.CallRecorder;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
import dev.kcp.comm.PendingAgreement;
import dev.kcp.comm.PendingExchange;
import dev.kcp.comm.Segment;
import dev.kcp.conv.cuda.CudaEvent;
import dev.kcp.conv.cuda.CudaStream;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/**
 * A communicator whose exchanges order the streams as real ones do, and move nothing: what is left of a step's time with it
 * is what the rows themselves do not cost. Results are wrong.
 */
final class EventsOnly implements Communicator {
    private final Communicator real;
    private final CudaStream compute;
    private final CudaStream transfers;
    private final CudaEvent ready;
    private final CudaEvent done;

    EventsOnly(Communicator real, CudaStream compute) {
        this.real = real;
        this.compute = compute;
        transfers = CudaStream.createUrgent(compute.device());
        ready = CudaEvent.untimed(compute.device());
        done = CudaEvent.untimed(compute.device());
    }

    @Override
    public PendingExchange exchange(Call call, LongConsumer behind, List<Segment> sends, List<Segment> receives) {
        ready.record(compute);
        ready.holdBack(transfers);
        if (behind != null) {
            behind.accept(transfers.handle());
        }
        done.record(transfers);
        return () -> done.holdBack(compute);
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
        return "events only";
    }

    @Override
    public Device device() {
        return real.device();
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
        transfers.synchronize();
        ready.close();
        done.close();
        transfers.close();
    }
}
