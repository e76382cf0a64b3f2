package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.stream.IntStream;

/**
 * The one message-passing communicator for host memory; transports differ in their {@link Wire} only. Texts name world
 * ranks, since those are what users started; a rank of the group is an index into the group's world ranks.
 */
final class GroupCommunicator implements Communicator {
    static final String WORLD = "world";

    private static final int LABEL_CHARS = 1024;

    private final Mesh mesh;
    private final GroupState state;
    private final int[] worldRanks;
    private final int rank;
    private final CommunicatorStats.Counter counter = new CommunicatorStats.Counter();
    private final Scratch scratch = new Scratch();
    private final GroupWaits waits;
    private final OwnStatements statements;
    private volatile long callingThread;
    private Round underWay;
    private CallRecorder.Entry recorded;
    private volatile boolean closed;

    GroupCommunicator(Mesh mesh, GroupState state, int[] worldRanks) {
        this.mesh = mesh;
        this.state = state;
        this.worldRanks = worldRanks.clone();
        this.waits = new GroupWaits(mesh, state);
        this.statements = new OwnStatements(mesh, state, this.worldRanks, waits, this::isCallingThread);
        this.rank = Arrays.stream(worldRanks).boxed().toList().indexOf(mesh.rank());
    }

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public int size() {
        return worldRanks.length;
    }

    @Override
    public String transport() {
        return mesh.transport();
    }

    @Override
    public Device device() {
        return Device.CPU;
    }

    @Override
    public List<Integer> lateRanks() {
        return mesh.locked(state::behind);
    }

    @Override
    public CommunicatorStats stats() {
        return counter.read();
    }

    @Override
    public PendingExchange exchange(Call call, LongConsumer behind, List<Segment> sends, List<Segment> receives) {
        checkUsable(call);
        List<List<MemorySegment>> outgoing = byPeer(sends);
        List<List<MemorySegment>> incoming = byPeer(receives);
        Sink[] sinks = new Sink[size()];
        for (int peer = 0; peer < size(); peer++) {
            if (!incoming.get(peer).isEmpty()) {
                sinks[peer] = Sink.into(incoming.get(peer));
            }
        }
        Round round = beginCall(call, outgoing, sinks, true);
        underWay = round;
        return () -> {
            if (underWay == round) {
                round.await();
                underWay = null;
                if (behind != null) {
                    behind.accept(0);
                }
            } else if (!round.isDone()) {
                mesh.checkAlive();
                throw new IllegalStateException("exchange abandoned: " + round);
            }
        };
    }

    private List<List<MemorySegment>> byPeer(List<Segment> segments) {
        List<List<MemorySegment>> byPeer = new ArrayList<>();
        for (int peer = 0; peer < size(); peer++) {
            byPeer.add(List.of());
        }
        for (Segment s : segments) {
            s.checkPeer(rank, size());
            if (s.bytes() > 0) {
                if (byPeer.get(s.peer()).isEmpty()) {
                    byPeer.set(s.peer(), new ArrayList<>());
                }
                byPeer.get(s.peer()).add(HostMemory.ALL.asSlice(s.address(), s.bytes()));
            }
        }
        return byPeer;
    }

    @Override
    public void allReduce(String label, DType dtype, long address, long elements) {
        Call call = Call.ofSum(label, dtype, address, elements);
        checkUsable(call);
        SumSlices slices = new SumSlices(size(), rank, dtype, address, elements);
        MemorySegment room = scratch.ofBytes(slices.scratchBytes());
        beginCall(call, slices.toOwners(), slices.fromPeers(room), false).await();
        slices.sumOwn(room);
        nextPhase(call, 1, slices.toPeers(), slices.fromOwners()).await();
    }

    @Override
    public List<byte[]> allGather(String label, byte[] mine) {
        return gather(Call.of(Call.Kind.ALL_GATHER, label), Objects.requireNonNull(mine, "mine"));
    }

    @Override
    public void barrier(String label) {
        gather(Call.of(Call.Kind.BARRIER, label), new byte[0]);
    }

    private List<byte[]> gather(Call call, byte[] mine) {
        checkUsable(call);
        byte[] sent = mine.clone();
        List<List<MemorySegment>> outgoing = new ArrayList<>();
        Sink[] sinks = new Sink[size()];
        for (int peer = 0; peer < size(); peer++) {
            boolean isPeer = peer != rank;
            outgoing.add(isPeer && sent.length > 0 ? List.of(MemorySegment.ofArray(sent)) : List.of());
            sinks[peer] = isPeer ? Sink.collecting() : null;
        }
        beginCall(call, outgoing, sinks, true).await();
        List<byte[]> all = new ArrayList<>();
        for (int peer = 0; peer < size(); peer++) {
            all.add(peer == rank ? sent : sinks[peer].collected());
        }
        return all;
    }

    @Override
    public Communicator split(int color, int key) {
        List<byte[]> all = gather(
                Call.of(Call.Kind.SPLIT, "split"),
                ByteBuffer.allocate(8).putInt(color).putInt(key).array());
        record Member(int key, int rank) {}
        int[] members = IntStream.range(0, size())
                .filter(peer -> ByteBuffer.wrap(all.get(peer)).getInt(0) == color)
                .mapToObj(peer -> new Member(ByteBuffer.wrap(all.get(peer)).getInt(4), peer))
                .sorted(Comparator.comparingInt(Member::key).thenComparingInt(Member::rank))
                .mapToInt(member -> worldRanks[member.rank()])
                .toArray();
        // Equal on all members and unique in the mesh, so peers may send to the group before it exists here.
        String name = state.name() + "/" + (mesh.locked(state::callsMade) - 1) + "." + color;
        return mesh.open(name, members);
    }

    @Override
    public PendingAgreement agree(String what, String statement) {
        if (statement.length() > LABEL_CHARS) {
            throw new IllegalArgumentException(
                    "statement too long: chars=" + statement.length() + " most=" + LABEL_CHARS);
        }
        if (closed) {
            throw new IllegalStateException("communicator is closed: statement=" + statement);
        }
        mesh.checkAlive();
        return statements.state(what, statement);
    }

    /** Until the first call any thread may be the one that makes it. */
    private boolean isCallingThread() {
        long caller = callingThread;
        return caller == 0 || caller == Thread.currentThread().threadId();
    }

    @Override
    public CallRecorder recorder() {
        return mesh.recorder();
    }

    @Override
    public void abort(Code code, String message) {
        mesh.fail(new Failure(code, mesh.rank(), -1, message));
    }

    @Override
    public void checkAlive() {
        mesh.checkAlive();
    }

    /** Why the group ended, or null where it did not. */
    Failure failure() {
        return mesh.failure();
    }

    @Override
    public int worldRank() {
        return mesh.rank();
    }

    @Override
    public void onFailure(Consumer<KcpException> listener) {
        mesh.onFailure(listener);
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        if (underWay != null) {
            abort("closed its communicator with an exchange under way: " + underWay);
            mesh.wire().dropPayload();
            underWay = null;
        }
        CloseStack.closeAll(scratch, () -> mesh.close(state, worldRanks));
    }

    private void checkUsable(Call call) {
        if (call.label().length() > LABEL_CHARS) {
            throw new IllegalArgumentException(
                    "label too long: chars=" + call.label().length() + " most=" + LABEL_CHARS);
        }
        if (closed) {
            throw new IllegalStateException("communicator is closed: call=" + call);
        }
        mesh.checkAlive();
        if (underWay != null) {
            throw new IllegalStateException("an exchange is under way: await=" + underWay + " call=" + call);
        }
    }

    /** Numbers the call, tells every peer of the group what it is, and starts its first phase. */
    private Round beginCall(Call call, List<List<MemorySegment>> outgoing, Sink[] sinks, boolean lastPhase) {
        callingThread = Thread.currentThread().threadId();
        long number = mesh.locked(state::callsMade);
        waits.peersNear(number, call);
        counter.call(call.kind());
        recorded = mesh.recorder().begin(state.name(), number, call);
        return start(new Round(waits, new Step(number, 0, call, sinks), outgoing, lastPhase));
    }

    private Round nextPhase(Call call, int phase, List<List<MemorySegment>> outgoing, Sink[] sinks) {
        long number = mesh.locked(state::callsMade) - 1;
        return start(new Round(waits, new Step(number, phase, call, sinks), outgoing, true));
    }

    private Round start(Round round) {
        round.start(worldRanks, rank, counter, recorded);
        return round;
    }
}
