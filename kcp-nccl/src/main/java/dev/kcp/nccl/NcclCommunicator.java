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
import dev.kcp.conv.cuda.CudaEvent;
import dev.kcp.conv.cuda.CudaGraph;
import dev.kcp.conv.cuda.CudaStream;
import dev.kcp.conv.cuda.MessageHeaders;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/**
 * Collectives between GPUs. Rows go over NCCL on a stream of their own, at high priority, beside the compute stream; no host
 * thread waits for them. Everything else, what a call means and how the group ends, goes over a control communicator for
 * host memory, so that no check can hang on the device: every call is told to all ranks there, rows carry headers that the
 * device compares, and a watch ends the group when something queued is not done by the deadline.
 *
 * <p>Addresses of segments and sums are device addresses. A call returns when its work is queued: {@link
 * PendingExchange#await} lets the compute stream wait, not the host; {@link #synchronize} is the host's wait, and has a
 * deadline. A call's memory must stay until the compute stream is past the await.
 */
public final class NcclCommunicator implements Communicator {
    private static final Duration DRAIN = Duration.ofSeconds(5);
    private static final System.Logger LOG = System.getLogger(NcclCommunicator.class.getName());

    private final Communicator control;
    private final CudaStream compute;
    private final CudaStream transfers;
    private final Path library;
    private final Duration deadline;
    private final NcclGroup group;
    private final MessageHeaders headers;
    private final CallAnnouncer announcer;
    private final ExchangeWatch watch;
    private final CudaEvent ready;
    private final CudaEvent captured;
    private final CommunicatorStats.Counter total = new CommunicatorStats.Counter();
    /** Counts what is queued: calls made, or while a graph is captured the calls of its every replay. */
    private CommunicatorStats.Counter counter = total;

    private final Set<Call> agreedCalls = new HashSet<>();
    private final List<PendingAgreement> pendingAgreements = new ArrayList<>();
    private final List<NcclGraph> graphs = new ArrayList<>();
    private final HeaderTurns turnsTo;
    private final HeaderTurns turnsFrom;
    private List<Call> recording;
    private boolean transfersCaptured;
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
        try {
            if (control.size() > 1) {
                Nccl.load(library);
            }
            byte[] uniqueId = Peers.meet(control, compute.device(), library);
            return new NcclCommunicator(control, compute, library, deadline, uniqueId);
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
     * @param compute on this rank's GPU, see {@link dev.kcp.conv.cuda.CudaDevice#ordinalFor}
     */
    public static NcclCommunicator join(RankInfo me, CudaStream compute, Path library, Duration deadline) {
        return create(TcpCommunicator.join(me, deadline), compute, library, deadline);
    }

    private NcclCommunicator(
            Communicator control, CudaStream compute, Path library, Duration deadline, byte[] uniqueId) {
        this.control = control;
        this.compute = compute;
        this.library = library;
        this.deadline = deadline;
        compute.device().makeCurrent();
        transfers = CudaStream.createUrgent(compute.device());
        ready = CudaEvent.untimed(compute.device());
        captured = CudaEvent.untimed(compute.device());
        headers = new MessageHeaders(transfers, size());
        turnsTo = new HeaderTurns(size());
        turnsFrom = new HeaderTurns(size());
        group = size() == 1
                ? null
                : new NcclGroup(
                        size(), rank(), uniqueId, compute.device(), transfers.handle(), deadline, control::checkAlive);
        announcer = new CallAnnouncer(control.split(0, rank()));
        watch = new ExchangeWatch(compute.device(), deadline, this::look, this::overdue);
        // Elsewhere, since the thread that learns of a failure has more to do.
        control.onFailure(failure -> Thread.ofPlatform().daemon().start(this::abortDevice));
        if (group != null) {
            group.connect(headers.outgoing(0), headers.incoming(0), MessageHeaders.BYTES, rank());
            headers.reset();
            synchronize(transfers);
            control.barrier("connected");
        }
    }

    /** What the watch looks for beside late work: NCCL's own errors, and rows of another call. */
    private void look() {
        try {
            if (group != null) {
                group.checkHealth();
            }
            headers.wrong().ifPresent(this::strayRows);
        } catch (KcpException e) {
            control.abort(e.code(), "rank " + worldRank() + ": " + e.getMessage());
        }
    }

    private void strayRows(String what) {
        control.abort(Code.DISAGREEMENT, "rank " + worldRank() + " got stray rows: " + what);
    }

    private void overdue(Object what) {
        control.abort(
                Code.DEADLINE,
                "rank " + worldRank() + " has work on its GPU that does not end: work=" + what + " deadlineMillis="
                        + deadline.toMillis());
    }

    /** Lets everything queued end, so that streams run dry and memory can be freed. */
    private void abortDevice() {
        if (group != null) {
            group.abort();
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
    public Communicator host() {
        return control;
    }

    /** The stream that exchanges wait for, and that waits for them. */
    public CudaStream compute() {
        return compute;
    }

    @Override
    public PendingExchange exchange(Call call, LongConsumer behind, List<Segment> sends, List<Segment> receives) {
        checkUsable(call);
        announce(call);
        BitSet to = peers(sends);
        BitSet from = peers(receives);
        if (behind == null && to.isEmpty() && from.isEmpty()) {
            return control::checkAlive;
        }
        ready.record(compute);
        ready.holdBack(transfers);
        BitSet headersTo = turnsTo.next(to);
        BitSet headersFrom = turnsFrom.next(from);
        if (!to.isEmpty() || !from.isEmpty()) {
            group.exchange(with(headersTo, true, sends), with(headersFrom, false, receives));
        }
        if (behind != null) {
            behind.accept(transfers.handle());
        }
        counter.sent(call.kind(), sends.stream().mapToLong(Segment::bytes).sum());
        CudaEvent done = markDone(call);
        if (!headersTo.isEmpty() || !headersFrom.isEmpty()) {
            headers.check(headersTo, headersFrom, digest(call));
        }
        underWay = true;
        return () -> {
            underWay = false;
            done.holdBack(compute);
            control.checkAlive();
        };
    }

    private CudaEvent markDone(Call call) {
        if (recording == null) {
            return watch.mark(transfers, call);
        }
        transfersCaptured = true;
        captured.record(transfers);
        return captured;
    }

    /** Tells every rank what the call is; what it means must be known to all before its rows first travel. */
    private void announce(Call call) {
        if (agreedCalls.add(call)) {
            announcer.agree("call", call.toString());
        }
        if (recording != null) {
            recording.add(call);
        } else {
            announcer.announce(call);
        }
        counter.call(call.kind());
    }

    private BitSet peers(List<Segment> segments) {
        BitSet peers = new BitSet();
        for (Segment segment : segments) {
            segment.checkPeer(rank(), size());
            if (segment.bytes() > 0) {
                peers.set(segment.peer());
            }
        }
        return peers;
    }

    private List<Segment> with(BitSet headed, boolean outgoing, List<Segment> rows) {
        if (headed.isEmpty()) {
            return rows;
        }
        List<Segment> all = new ArrayList<>(rows.size() + headed.cardinality());
        for (int peer = headed.nextSetBit(0); peer >= 0; peer = headed.nextSetBit(peer + 1)) {
            long address = outgoing ? headers.outgoing(peer) : headers.incoming(peer);
            all.add(new Segment(peer, address, MessageHeaders.BYTES));
        }
        all.addAll(rows);
        return all;
    }

    private static long digest(Call call) {
        long digest = call.planDigest() * 31 + call.kind().ordinal();
        for (char c : call.label().toCharArray()) {
            digest = digest * 1_000_003 + c;
        }
        return digest * 31 + call.channels();
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
        Call call = Call.ofSum(label, dtype, elements);
        checkUsable(call);
        announce(call);
        if (group == null || elements == 0) {
            return;
        }
        ready.record(compute);
        ready.holdBack(transfers);
        group.allReduce(address, elements, dtype == DType.F64);
        markDone(call).holdBack(compute);
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
        return create(control.split(color, key), compute, library, deadline);
    }

    @Override
    public PendingAgreement agree(String what, String statement) {
        PendingAgreement agreement = control.agree(what, statement);
        synchronized (pendingAgreements) {
            pendingAgreements.add(agreement);
        }
        return agreement;
    }

    private void awaitAgreements() {
        List<PendingAgreement> all;
        synchronized (pendingAgreements) {
            all = List.copyOf(pendingAgreements);
            pendingAgreements.clear();
        }
        all.forEach(PendingAgreement::await);
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
        awaitAgreements();
        recording = new ArrayList<>();
        transfersCaptured = false;
        counter = new CommunicatorStats.Counter();
        turnsTo.beginCapture();
        turnsFrom.beginCapture();
        try {
            CudaGraph graph = CudaGraph.capture(compute, () -> {
                work.run();
                // All that was queued beside the compute stream must have come back to it.
                if (transfersCaptured) {
                    captured.record(transfers);
                    captured.holdBack(compute);
                }
            });
            List<Call> calls = recording;
            NcclGraph made = new NcclGraph(this, label, calls, counter.read(), graph);
            graphs.add(made);
            announcer.agree("graph", label + " calls=" + calls.size() + " digest=" + Long.toHexString(digest(calls)));
            return made;
        } catch (RuntimeException | Error e) {
            control.abort("capturing " + label + ": " + e.getMessage());
            throw e;
        } finally {
            turnsTo.endCapture();
            turnsFrom.endCapture();
            recording = null;
            counter = total;
            underWay = false;
        }
    }

    private static long digest(List<Call> calls) {
        long digest = 1;
        for (Call call : calls) {
            digest = digest * 31 + digest(call);
        }
        return digest;
    }

    /** Queues a replay; called by the graph. */
    void replay(Call call, CommunicatorStats perReplay, CudaGraph graph) {
        checkUsable(call);
        awaitAgreements();
        announce(call);
        total.add(perReplay);
        graph.launch();
        watch.mark(compute, call);
    }

    /** For tests: counts messages that were never sent. */
    void spoilHeaders() {
        BitSet all = new BitSet();
        all.set(0, size());
        headers.check(all, new BitSet(), 0);
    }

    void forget(NcclGraph graph) {
        graphs.remove(graph);
    }

    /**
     * The host's wait for everything queued on the compute stream.
     *
     * @throws KcpException if the group failed, or the deadline passed
     */
    public void synchronize() {
        synchronize(compute);
        headers.wrong().ifPresent(this::strayRows);
        control.checkAlive();
    }

    private void synchronize(CudaStream stream) {
        try (CudaEvent end = CudaEvent.untimed(stream.device())) {
            end.record(stream);
            if (group == null) {
                stream.synchronize();
            } else {
                try {
                    group.until(end::isReached, "work on the GPU");
                } catch (KcpException e) {
                    control.abort(e.code(), "rank " + worldRank() + ": " + e.getMessage());
                    control.checkAlive();
                    throw e;
                }
            }
        }
    }

    @Override
    public CallRecorder recorder() {
        return control.recorder();
    }

    @Override
    public CommunicatorStats stats() {
        return total.read();
    }

    @Override
    public void abort(Code code, String message) {
        control.abort(code, message);
        abortDevice();
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
        boolean alive = isAlive();
        // A destroyed graph is what NCCL's own end would wait for.
        List.copyOf(graphs).forEach(NcclGraph::close);
        try {
            if (group != null && alive && !underWay) {
                synchronize(compute);
                synchronize(transfers);
                group.close();
            }
        } catch (KcpException e) {
            control.abort(e.code(), "rank " + worldRank() + " cannot leave: " + e.getMessage());
        } finally {
            abortDevice();
            watch.close();
            announcer.close();
            control.close();
            if (isDrained()) {
                headers.close();
                ready.close();
                captured.close();
                transfers.close();
            }
        }
    }

    /** Whether the stream ran dry. What a broken device still holds is better left than waited for. */
    private boolean isDrained() {
        try (CudaEvent end = CudaEvent.untimed(compute.device())) {
            end.record(transfers);
            long until = System.nanoTime() + DRAIN.toNanos();
            while (!end.isReached()) {
                if (System.nanoTime() > until) {
                    LOG.log(System.Logger.Level.WARNING, "transfers did not end: rank=" + worldRank());
                    return false;
                }
                LockSupport.parkNanos(100_000);
            }
            return true;
        }
    }

    private boolean isAlive() {
        try {
            control.checkAlive();
            return true;
        } catch (KcpException _) {
            return false;
        }
    }
}
