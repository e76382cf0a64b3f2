package dev.kcp.nccl;

import dev.kcp.cuda.CudaPrograms;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;

/**
 * Mailboxes in this GPU's memory, one for each peer, and the kernel that sends to others' and takes out of these. An exchange
 * is one launch on the stream, without the host and without another library; it can be captured. Each part of a message
 * carries its number and a digest of its call, which the receiver's device compares.
 *
 * <p>Messages between two ranks are matched by their order. A message's parts wait for each other only where the peer is
 * four messages behind. Waits on the device end with {@link #stop}.
 */
public final class PeerMail implements AutoCloseable {
    // As in mail.cu.
    static final int LANE_BYTES = 4096;

    /** Most lanes that the messages of one exchange to one peer, or from one, may take together. */
    public static final int LANES = 256;

    static final int SLOTS = 4;
    static final int PARCELS = 24;
    static final long HEAD_BYTES = (long) LANES * (SLOTS * Long.BYTES + 4 * Integer.BYTES);
    static final long BOX_BYTES = HEAD_BYTES + (long) SLOTS * LANES * LANE_BYTES;
    static final int HEAD_WORDS = 5;
    static final int PARCEL_WORDS = 7;
    static final int BLOCK_THREADS = 128;

    /**
     * What is sent to a peer, or received from it.
     *
     * @param peer its number among those of the constructor
     * @param address on this device, of any alignment
     */
    public record Parcel(int peer, long address, long bytes) {}

    private final CudaStream stream;
    private final CudaPrograms programs;
    private final Memory memory;
    private final Memory stop;
    private final DeviceVerdict verdict;
    private final long base;
    private final PeerMemory[] reached;
    private final long[] theirBoxes;
    private boolean closed;

    /**
     * Makes empty mailboxes; waits for the stream.
     *
     * @param peers how many others there are
     */
    public PeerMail(CudaStream stream, int peers) {
        this.stream = stream;
        programs = CudaPrograms.load(PeerMail.class, stream, "mail", HEAD_WORDS + PARCELS * PARCEL_WORDS);
        reached = new PeerMemory[peers];
        theirBoxes = new long[peers];
        stream.device().makeCurrent();
        memory = stream.device().allocate(peers * BOX_BYTES);
        base = memory.address();
        stop = stream.device().allocatePinned(Long.BYTES);
        setStop(0);
        verdict = new DeviceVerdict(stream.device().allocatePinned(DeviceVerdict.BYTES));
        for (int peer = 0; peer < peers; peer++) {
            stream.fill(box(peer), (byte) 0, HEAD_BYTES);
        }
        // Loading a kernel may wait for the device, where a peer's may be waiting for this one: load it now.
        programs.set(new long[HEAD_WORDS]).launch("mail_exchange", 1, BLOCK_THREADS);
        stream.synchronize();
    }

    private long box(int peer) {
        return base + peer * BOX_BYTES;
    }

    /** What peers need to {@link #reach} these mailboxes. */
    public byte[] card() {
        return PeerMemory.card(stream.device(), base);
    }

    /**
     * Opens a peer's mailboxes; false where the GPUs or their processes do not share memory.
     *
     * @param card the peer's
     * @param number this rank's among the peer's peers
     */
    public boolean reach(int peer, byte[] card, int number) {
        Optional<PeerMemory> opened = PeerMemory.open(stream.device(), card);
        opened.ifPresent(theirs -> {
            reached[peer] = theirs;
            theirBoxes[peer] = theirs.address() + number * BOX_BYTES;
        });
        return opened.isPresent();
    }

    /** Lanes that a message takes. */
    public static long lanes(long bytes) {
        return (bytes + LANE_BYTES - 1) / LANE_BYTES;
    }

    /**
     * Queues an exchange. Peers list what they send to one another in the order in which it is received; what goes to one
     * peer takes no more than {@link #LANES} lanes, and so does what comes from one.
     *
     * @param digest of the call: that of both ends differs if they do not mean the same one
     */
    public synchronized void exchange(List<Parcel> outgoing, List<Parcel> incoming, long digest) {
        long[] lanes = new long[reached.length];
        List<Parcel> batch = new ArrayList<>(outgoing);
        batch.addAll(incoming);
        for (int begin = 0; begin < batch.size(); begin += PARCELS) {
            int end = Math.min(batch.size(), begin + PARCELS);
            launch(batch, begin, end, outgoing.size(), lanes, digest);
        }
    }

    /** @param lanes in use already, of each peer in the direction of the parcel at {@code begin} */
    private void launch(List<Parcel> all, int begin, int end, int outgoing, long[] lanes, long digest) {
        long[] words = new long[HEAD_WORDS + (end - begin) * PARCEL_WORDS];
        long blocks = 0;
        int at = HEAD_WORDS;
        for (int i = begin; i < end; i++) {
            if (i == outgoing) {
                Arrays.fill(lanes, 0);
            }
            Parcel parcel = all.get(i);
            int peer = parcel.peer();
            words[at++] = parcel.address();
            words[at++] = parcel.bytes();
            words[at++] = box(peer);
            words[at++] = theirBoxes[peer];
            words[at++] = lanes[peer];
            words[at++] = blocks;
            words[at++] = peer;
            lanes[peer] += lanes(parcel.bytes());
            blocks += lanes(parcel.bytes());
        }
        words[0] = Math.clamp(outgoing - begin, 0, end - begin);
        words[1] = end - begin;
        words[2] = Long.hashCode(digest) & 0xffffffffL;
        words[3] = stop.address();
        words[4] = verdict.address();
        programs.set(words).launch("mail_exchange", blocks, BLOCK_THREADS);
    }

    /**
     * What the first wrong message said, or nothing while all were right.
     *
     * @param names what a peer is called, by its number among those of the constructor
     */
    public Optional<String> wrong(IntFunction<String> names) {
        return verdict.wrong(names);
    }

    /** Ends every wait on the device, now and from now on; what was under way is lost. */
    public void stop() {
        if (!closed) {
            setStop(1);
        }
    }

    private void setStop(long value) {
        ValueLayout.JAVA_LONG.varHandle().setVolatile(HostMemory.ALL, stop.address(), value);
    }

    /**
     * Ends the use of peers' mailboxes; the stream has run dry.
     *
     * @param peersAreDone whether no peer writes into these mailboxes any more; otherwise they stay until the process ends
     */
    public synchronized void close(boolean peersAreDone) {
        if (closed) {
            return;
        }
        closed = true;
        try (CloseStack owned = new CloseStack()) {
            owned.push(peersAreDone ? memory : null);
            owned.push(verdict);
            owned.push(stop);
            owned.push(programs);
            for (PeerMemory theirs : reached) {
                owned.push(theirs);
            }
        }
    }

    /** As {@link #close(boolean)} while peers may still write. */
    @Override
    public void close() {
        close(false);
    }
}
