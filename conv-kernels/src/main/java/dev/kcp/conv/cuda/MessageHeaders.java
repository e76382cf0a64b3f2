package dev.kcp.conv.cuda;

import static dev.kcp.conv.cuda.Driver.check;

import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.lang.foreign.ValueLayout;
import java.util.BitSet;
import java.util.Optional;
import jcuda.Pointer;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.JCudaDriver;
import org.bytedeco.cuda.cudart.CUfunc_st;

/**
 * Headers that travel with rows between GPUs: which call the sender meant, and its how many-th message to this peer it is.
 * The device writes and compares them; the host only looks, whenever it likes, whether one was wrong. A receiver can thus
 * tell rows of another call, or of an earlier replay, without any wait.
 */
public final class MessageHeaders implements AutoCloseable {
    /** Bytes of one header. */
    public static final int BYTES = 32;

    /** Most peers, 64 to a word of {@code HeaderArgs}. */
    public static final int MAX_PEERS = 1024;

    private static final int MASK_WORDS = MAX_PEERS / Long.SIZE;
    private static final int WORDS = MASK_WORDS + 4;
    private static final int VERDICT_BYTES = 64;

    private final CudaStream stream;
    private final int peers;
    private final Memory arguments = Memory.allocateHost((long) WORDS * Long.BYTES);
    private final Launcher launcher;
    private final KernelModule module;
    private final CUfunc_st stamp;
    private final CUfunc_st verify;
    private final CUdeviceptr memory = new CUdeviceptr();
    private final Pointer verdict = new Pointer();
    private final long base;
    private final long verdictAddress;
    private boolean closed;

    /** @param peers ranks of the group */
    public MessageHeaders(CudaStream stream, int peers) {
        if (peers > MAX_PEERS) {
            throw new IllegalArgumentException(
                    "more ranks than headers can name: ranks=" + peers + " most=" + MAX_PEERS);
        }
        this.stream = stream;
        this.peers = peers;
        stream.device().makeCurrent();
        launcher = new Launcher(stream, arguments.address(), false);
        module = KernelModule.load(stream.device(), "rows");
        stamp = module.function("headers_stamp", 0);
        verify = module.function("headers_verify", 0);
        long bytes = 2L * peers * (BYTES + Long.BYTES);
        check("cuMemAlloc", JCudaDriver.cuMemAlloc(memory, bytes));
        check("cuMemsetD8", JCudaDriver.cuMemsetD8(memory, (byte) 0, bytes));
        check(
                "cuMemHostAlloc",
                JCudaDriver.cuMemHostAlloc(verdict, VERDICT_BYTES, JCudaDriver.CU_MEMHOSTALLOC_DEVICEMAP));
        base = Handles.addressOf(memory);
        verdictAddress = Handles.addressOf(verdict);
        HostMemory.zero(verdictAddress, VERDICT_BYTES);
    }

    /** Where the header for a peer is sent from. */
    public long outgoing(int peer) {
        return base + (long) peer * BYTES;
    }

    /** Where the header of a peer is received. */
    public long incoming(int peer) {
        return base + (long) (peers + peer) * BYTES;
    }

    /** Writes the headers for some peers, on a queue. */
    public void stamp(BitSet to, long digest, long queue) {
        launch("headers_stamp", stamp, to, outgoing(0), 0, digest, queue);
    }

    /** Compares the headers that came from some peers, on a queue. */
    public void verify(BitSet from, long digest, long queue) {
        launch("headers_verify", verify, from, incoming(0), 1, digest, queue);
    }

    private synchronized void launch(
            String name, CUfunc_st function, BitSet which, long headers, int counters, long digest, long queue) {
        long[] mask = which.toLongArray();
        for (int i = 0; i < MASK_WORDS; i++) {
            set(i, i < mask.length ? mask[i] : 0);
        }
        set(MASK_WORDS, base + 2L * peers * BYTES + (long) counters * peers * Long.BYTES);
        set(MASK_WORDS + 1, headers);
        set(MASK_WORDS + 2, digest);
        set(MASK_WORDS + 3, verdictAddress);
        stream.device().makeCurrent();
        launcher.queue(queue);
        launcher.launch(name, function, 1, 1, (which.length() + 31) / 32 * 32, 1, 0, false);
    }

    private void set(int word, long value) {
        HostMemory.ALL.set(ValueLayout.JAVA_LONG, arguments.address() + (long) word * Long.BYTES, value);
    }

    /** What the first wrong header said, or nothing while all were right. */
    public Optional<String> wrong() {
        long peer = (long) ValueLayout.JAVA_LONG.varHandle().getVolatile(HostMemory.ALL, verdictAddress) - 1;
        if (peer < 0) {
            return Optional.empty();
        }
        return Optional.of("rows from rank " + peer + " of the group are of another call: expectedCall="
                + Long.toHexString(word(1)) + " expectedMessage=" + word(2) + " call=" + Long.toHexString(word(3))
                + " message=" + word(4));
    }

    private long word(int index) {
        return HostMemory.ALL.get(ValueLayout.JAVA_LONG, verdictAddress + (long) index * Long.BYTES);
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            stream.device().makeCurrent();
            check("cuMemFree", JCudaDriver.cuMemFree(memory));
            check("cuMemFreeHost", JCudaDriver.cuMemFreeHost(verdict));
            module.close();
            launcher.close();
            arguments.close();
        }
    }
}
