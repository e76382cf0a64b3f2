package dev.kcp.nccl;

import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.KernelModule;
import dev.kcp.cuda.Launcher;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Memory;
import java.util.BitSet;
import java.util.Optional;
import org.bytedeco.cuda.cudart.CUfunc_st;

/**
 * Headers that travel with rows between GPUs: the how many-th message to this peer it is, and a digest of the calls that
 * were made with it before. The device makes and compares them; the host only looks, whenever it likes, whether one was
 * wrong. A receiver can thus tell stale rows, in a graph's replays too, without any wait, and nothing runs before a send:
 * what a message travels with was made after the one before.
 */
public final class MessageHeaders implements AutoCloseable {
    /** Bytes of one header. */
    public static final int BYTES = 16;

    /** Most peers, 64 to a word of {@code HeaderArgs}. */
    public static final int MAX_PEERS = 1024;

    static final int MASK_WORDS = MAX_PEERS / Long.SIZE;
    static final int WORDS = 2 * MASK_WORDS + 5;

    private final CudaStream stream;
    private final int peers;
    private final Launcher launcher;
    private final KernelModule module;
    private final CUfunc_st check;
    private final Memory memory;
    private final DeviceVerdict verdict;
    private final long base;
    private boolean closed;

    /**
     * Headers for one group.
     *
     * @param peers ranks of the group
     */
    public MessageHeaders(CudaStream stream, int peers) {
        if (peers > MAX_PEERS) {
            throw new IllegalArgumentException(
                    "more ranks than headers can name: ranks=" + peers + " most=" + MAX_PEERS);
        }
        this.stream = stream;
        this.peers = peers;
        stream.device().makeCurrent();
        launcher = new Launcher(stream, WORDS, false);
        module = KernelModule.load(
                MessageHeaders.class, stream.device(), "headers", KernelModule.Origin.BUILT_OR_COMPILED);
        check = module.function("headers_check", 0);
        memory = stream.device().allocate(3L * peers * BYTES);
        base = memory.address();
        verdict = new DeviceVerdict(stream.device().allocatePinned(DeviceVerdict.BYTES));
        reset();
    }

    /** Counts from the first message again, in the stream's order. */
    public void reset() {
        stream.fill(base, (byte) 0, 3L * peers * BYTES);
    }

    /** Where the header for a peer is sent from. */
    public long outgoing(int peer) {
        return base + (long) peer * BYTES;
    }

    /** Where the header of a peer is received. */
    public long incoming(int peer) {
        return base + (long) (peers + peer) * BYTES;
    }

    /**
     * Compares the headers that came with a call's messages and makes those of the next ones, on the stream.
     *
     * @param to peers that the call sent to
     * @param from peers that it received from
     * @param digest of the call
     */
    public synchronized void check(BitSet to, BitSet from, long digest) {
        setMask(0, to);
        setMask(MASK_WORDS, from);
        launcher.set(2 * MASK_WORDS, outgoing(0));
        launcher.set(2 * MASK_WORDS + 1, incoming(0));
        launcher.set(2 * MASK_WORDS + 2, base + 2L * peers * BYTES);
        launcher.set(2 * MASK_WORDS + 3, digest);
        launcher.set(2 * MASK_WORDS + 4, verdict.address());
        stream.device().makeCurrent();
        int threads = Math.max(to.length(), from.length());
        launcher.launch("headers_check", check, 1, 1, (threads + 31) / 32 * 32, 1, 0, false);
    }

    private void setMask(int at, BitSet which) {
        long[] mask = which.toLongArray();
        for (int i = 0; i < MASK_WORDS; i++) {
            launcher.set(at + i, i < mask.length ? mask[i] : 0);
        }
    }

    /** What the first wrong header said, or nothing while all were right. */
    public Optional<String> wrong() {
        return verdict.wrong(rank -> "rank " + rank + " of the group");
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            CloseStack.closeAll(launcher, module, memory, verdict);
        }
    }
}
