package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.comm.Call;
import dev.kcp.comm.CallRecorder;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
import dev.kcp.comm.PendingAgreement;
import dev.kcp.comm.PendingExchange;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.Segment;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import java.nio.file.Path;
import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/**
 * Collectives between GPUs. Rows go over NCCL, or straight into the peer's memory as {@link Route} tells, on a stream of
 * their own, at high priority, beside the compute stream; no host thread waits for them. Everything else, what a call means and how the group ends, goes over a control communicator for
 * host memory, so that no check can hang on the device: every call is told to all ranks there, rows carry headers that the
 * device compares, and a watch ends the group when something queued is not done by the deadline.
 *
 * <p>Addresses of segments and sums are device addresses. A call returns when its work is queued: {@link
 * PendingExchange#await} lets the compute stream wait, not the host; {@link #synchronize} is the host's wait, and has a
 * deadline. A call's memory must stay until the compute stream is past the await.
 */
public final class NcclCommunicator implements Communicator {
    private final Communicator control;
    private final CudaStream compute;
    private final Path library;
    private final Duration deadline;
    private final Route route;
    private final NcclGroup group;
    private final DirectRoute direct;
    private final HeaderedMessages messages;
    private final CallBook calls;
    private final GroupGuard guard;
    private final Transfers transfers;
    private final Agreements agreements = new Agreements();
    private final CapturedGraphs graphs;
    private boolean underWay;
    private boolean closed;

    /**
     * Makes the group's communicator between GPUs. A collective call of the control communicator's ranks, which this one
     * takes over and closes, also when it throws.
     *
     * @param control between the same ranks, for host memory
     * @param compute where x, y and gradients are made; borrowed
     * @param library NCCL's, see {@link NcclLibrary#require}; not looked at in a group of one rank
     * @param deadline bound of every wait, and of everything queued
     * @throws KcpException the same on every rank: MISSING_DEVICE if ranks share a GPU, DISAGREEMENT if they loaded
     *     different versions, DEADLINE if some did not come
     */
    public static NcclCommunicator create(Communicator control, CudaStream compute, Path library, Duration deadline) {
        return create(control, compute, library, deadline, Route.DIRECT);
    }

    /**
     * As above, with rows by a given route.
     *
     * @param route equal on all ranks
     */
    public static NcclCommunicator create(
            Communicator control, CudaStream compute, Path library, Duration deadline, Route route) {
        try {
            if (control.size() > 1) {
                Nccl.load(library);
            }
            byte[] uniqueId = Peers.meet(control, compute.device(), library);
            return new NcclCommunicator(control, compute, library, deadline, route, uniqueId);
        } catch (KcpException e) {
            control.abort(e.code(), e.getMessage());
            control.close();
            throw e;
        } catch (RuntimeException | Error e) {
            control.abort("cannot make the communicator between GPUs: " + e.getMessage());
            control.close();
            throw e;
        }
    }

    /**
     * Joins the job's communicator of all ranks, as {@link TcpCommunicator#join(RankInfo, Duration)} does for host memory.
     *
     * @param compute on this rank's GPU, see {@link dev.kcp.cuda.CudaDevice#ordinalFor}
     */
    public static NcclCommunicator join(RankInfo me, CudaStream compute, Path library, Duration deadline) {
        return join(me, compute, library, deadline, Route.DIRECT);
    }

    /**
     * As above, with rows by a given route.
     *
     * @param route equal on all ranks
     */
    public static NcclCommunicator join(RankInfo me, CudaStream compute, Path library, Duration deadline, Route route) {
        return create(TcpCommunicator.join(me, deadline), compute, library, deadline, route);
    }

    private NcclCommunicator(
            Communicator control, CudaStream compute, Path library, Duration deadline, Route route, byte[] uniqueId) {
        this.control = control;
        this.compute = compute;
        this.library = library;
        this.deadline = deadline;
        this.route = route;
        CudaDevice device = compute.device();
        device.makeCurrent();
        CudaStream stream = CudaStream.createUrgent(device);
        messages = new HeaderedMessages(stream, rank(), size());
        group = size() == 1
                ? null
                : new NcclGroup(size(), rank(), uniqueId, device, stream.handle(), deadline, control::checkAlive);
        calls = new CallBook(new CallAnnouncer(control.split(0, rank())));
        direct = group != null && route == Route.DIRECT ? DirectRoute.open(control, stream) : DirectRoute.none(size());
        guard = new GroupGuard(control, group, direct, messages, device, deadline, calls::lateRanks);
        transfers = new Transfers(compute, stream, group, direct, messages, guard);
        graphs = new CapturedGraphs(compute, calls, transfers);
        if (group != null) {
            transfers.connect(rank());
            control.barrier("connected");
        }
    }

    @Override
    public int rank() {
        return control.rank();
    }

    @Override
    public int size() {
        return control.size();
    }

    @Override
    public int worldRank() {
        return control.worldRank();
    }

    @Override
    public String transport() {
        return "nccl";
    }

    @Override
    public Device device() {
        return compute.device().device();
    }

    @Override
    public long queue() {
        return compute.handle();
    }

    @Override
    public Communicator host() {
        return control;
    }

    /** Whether rows to and from a rank go straight into memory, as {@link Route#DIRECT} tells. */
    public boolean isDirect(int rank) {
        return direct.reaches(rank);
    }

    /** The stream that exchanges wait for, and that waits for them. */
    public CudaStream compute() {
        return compute;
    }

    @Override
    public PendingExchange exchange(Call call, LongConsumer behind, List<Segment> sends, List<Segment> receives) {
        checkUsable(call);
        BitSet to = messages.peers(sends);
        BitSet from = messages.peers(receives);
        calls.enter(call);
        if (behind == null && to.isEmpty() && from.isEmpty()) {
            return control::checkAlive;
        }
        CudaEvent done = transfers.exchange(call, behind, sends, receives);
        calls.sent(call.kind(), sends.stream().mapToLong(Segment::bytes).sum());
        underWay = true;
        return () -> {
            underWay = false;
            done.holdBack(compute);
            control.checkAlive();
        };
    }

    private void checkUsable(Object call) {
        if (closed) {
            throw new IllegalStateException("communicator is closed: call=" + call);
        }
        if (underWay) {
            throw new IllegalStateException("an exchange is under way: call=" + call);
        }
        control.checkAlive();
    }

    /**
     * As the interface tells, in NCCL's own order: every rank gets the same bits.
     *
     * @param address on the device
     */
    @Override
    public void allReduce(String label, DType dtype, long address, long elements) {
        Call call = Call.ofSum(label, dtype, address, elements);
        checkUsable(call);
        calls.enter(call);
        if (group == null || elements == 0) {
            return;
        }
        transfers.allReduce(call, address, elements, dtype == DType.F64);
        control.checkAlive();
    }

    /** Gathers host bytes. */
    @Override
    public List<byte[]> allGather(String label, byte[] mine) {
        checkUsable(label);
        return control.allGather(label, mine);
    }

    /** Returns once every rank's host has called it; what is queued on the devices may not be done. */
    @Override
    public void barrier(String label) {
        checkUsable(label);
        control.barrier(label);
    }

    /** As the interface tells; a collective call that makes NCCL communicators. */
    @Override
    public Communicator split(int color, int key) {
        checkUsable("split");
        return create(control.split(color, key), compute, library, deadline, route);
    }

    @Override
    public PendingAgreement agree(String what, String statement) {
        return agreements.add(control.agree(what, statement));
    }

    /**
     * Captures what {@code work} queues on the compute stream, exchanges with it, to be replayed by all ranks alike. A
     * collective call: ranks must have captured the same calls.
     *
     * @param label names the graph in errors and records; equal on all ranks
     * @param work makes no host wait; run it once before, so that programs are loaded and calls known
     * @return closed by the caller, or with this communicator
     */
    public NcclGraph capture(String label, Runnable work) {
        checkUsable(label);
        agreements.await();
        try {
            return graphs.capture(this, label, work);
        } catch (RuntimeException | Error e) {
            control.abort("capturing " + label + ": " + e.getMessage());
            throw e;
        } finally {
            underWay = false;
        }
    }

    /** Queues a replay; called by the graph. */
    void replay(Call call, CommunicatorStats perReplay, CudaGraph graph) {
        checkUsable(call);
        agreements.await();
        calls.enterReplay(call, perReplay);
        graph.launch();
        guard.mark(compute, call);
    }

    void forget(NcclGraph graph) {
        graphs.forget(graph);
    }

    /** The headers that travel with its messages. */
    MessageHeaders headers() {
        return messages.headers();
    }

    /**
     * The host's wait for everything queued on the compute stream.
     *
     * @throws KcpException if the group failed, or the deadline passed
     */
    public void synchronize() {
        guard.synchronize(compute);
        guard.checkHeaders();
        control.checkAlive();
    }

    @Override
    public CallRecorder recorder() {
        return control.recorder();
    }

    @Override
    public CommunicatorStats stats() {
        return calls.stats();
    }

    @Override
    public void abort(Code code, String message) {
        control.abort(code, message);
    }

    @Override
    public void checkAlive() {
        control.checkAlive();
    }

    @Override
    public void onFailure(Consumer<KcpException> listener) {
        control.onFailure(listener);
    }

    /** Leaves the group: graphs first, then NCCL's communicator, then the control communicator. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        CloseStack.closeAll(transfers, control, calls, guard, this::leave);
    }

    /** Together with all ranks, where they are still there. */
    private void leave() {
        boolean alive = guard.isAlive();
        try {
            // A destroyed graph is what NCCL's own end would wait for.
            graphs.close();
            if (group != null && alive && !underWay) {
                guard.synchronize(compute);
                transfers.synchronize();
                // Until then a peer may still write into this rank's mailboxes.
                control.barrier("exchanges done");
                transfers.othersAreDone();
                group.close();
            }
        } catch (KcpException e) {
            control.abort(e.code(), "rank " + worldRank() + " cannot leave: " + e.getMessage());
        }
    }
}
