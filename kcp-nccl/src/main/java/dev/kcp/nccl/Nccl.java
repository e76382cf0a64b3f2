package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.cuda.Handles;
import dev.kcp.files.NativeFolder;
import java.nio.file.Path;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.nccl;
import org.bytedeco.cuda.nccl.ncclComm;
import org.bytedeco.cuda.nccl.ncclConfig_t;
import org.bytedeco.cuda.nccl.ncclUniqueId;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;

/**
 * NCCL's functions, and the only class that touches its binding. A result that is neither success nor "in progress" becomes
 * an exception with the call, the code's text and the library's own words.
 */
final class Nccl {
    static final int UNIQUE_ID_BYTES = nccl.NCCL_UNIQUE_ID_BYTES;

    /** First field values of {@code ncclConfig_t}, for which the binding has no initializer. */
    private static final int CONFIG_MAGIC = 0xcafebeef;

    private static final int UNDEFINED = Integer.MIN_VALUE;

    private Nccl() {}

    /**
     * Loads a library file, and the binding with it.
     *
     * @param library as {@link NcclLibrary} found it
     */
    @SuppressWarnings("restricted")
    static void load(Path library) {
        NcclVersion.require(library);
        NcclRas.listenApart();
        // A group's calls are all ordered by its compute stream, captured or not; NCCL's own order between graphs and
        // other calls costs 6 us in each exchange of a graph.
        NativeEnvironment.setIfAbsent("NCCL_GRAPH_MIXING_SUPPORT", "0");
        try {
            // Named by its path, so that the binding's own search cannot find another one.
            System.load(library.toAbsolutePath().toString());
            version();
        } catch (LinkageError e) {
            throw new KcpException(
                    Code.MISSING_DEVICE,
                    "NCCL cannot be loaded (" + NativeFolder.reason(e, NativeFolder.ofJavaCpp()) + "): library="
                            + library,
                    e);
        }
    }

    /** Version of the loaded library, as major * 10000 + minor * 100 + patch. */
    static int version() {
        int[] version = new int[1];
        check("ncclGetVersion", nccl.ncclGetVersion(version), null);
        return version[0];
    }

    static byte[] uniqueId() {
        try (ncclUniqueId id = new ncclUniqueId()) {
            check("ncclGetUniqueId", nccl.ncclGetUniqueId(id), null);
            byte[] bytes = new byte[UNIQUE_ID_BYTES];
            new BytePointer(id).capacity(UNIQUE_ID_BYTES).get(bytes);
            return bytes;
        }
    }

    /** Makes a communicator together with all ranks. Waits for them without a deadline. */
    static ncclComm init(int ranks, byte[] uniqueId, int rank) {
        ncclComm comm = new ncclComm();
        try (ncclUniqueId id = new ncclUniqueId();
                ncclConfig_t config = config()) {
            new BytePointer(id).capacity(UNIQUE_ID_BYTES).put(uniqueId);
            check("ncclCommInitRankConfig", nccl.ncclCommInitRankConfig(comm, ranks, id, rank, config), null);
        }
        return comm;
    }

    private static ncclConfig_t config() {
        ncclConfig_t config = new ncclConfig_t();
        long bytes = config.sizeof();
        // Every integer after the header says "undefined"; pointers stay null.
        Pointer.memset(config, 0, bytes);
        config.size(bytes).magic(CONFIG_MAGIC).version(nccl.NCCL_VERSION_CODE);
        config.cgaClusterSize(UNDEFINED).minCTAs(UNDEFINED).maxCTAs(UNDEFINED);
        config.splitShare(UNDEFINED).trafficClass(UNDEFINED).collnetEnable(UNDEFINED);
        config.CTAPolicy(UNDEFINED).shrinkShare(UNDEFINED).nvlsCTAs(UNDEFINED);
        config.nChannelsPerNetPeer(UNDEFINED).nvlinkCentricSched(UNDEFINED);
        config.graphUsageMode(UNDEFINED).numRmaCtx(UNDEFINED);
        config.blocking(1);
        return config;
    }

    /**
     * An error that the library found by itself.
     *
     * @throws KcpException if there is one
     */
    static void checkHealth(ncclComm comm) {
        int[] state = new int[1];
        check("ncclCommGetAsyncError", nccl.ncclCommGetAsyncError(comm, state), comm);
        check("an earlier call", state[0], comm);
    }

    static void groupStart() {
        check("ncclGroupStart", nccl.ncclGroupStart(), null);
    }

    static void groupEnd(ncclComm comm) {
        check("ncclGroupEnd", nccl.ncclGroupEnd(), comm);
    }

    static void send(Handles.Address bytes, long count, int peer, ncclComm comm, CUstream_st stream) {
        check("ncclSend", nccl.ncclSend(bytes, count, nccl.ncclInt8, peer, comm, stream), comm);
    }

    static void receive(Handles.Address bytes, long count, int peer, ncclComm comm, CUstream_st stream) {
        check("ncclRecv", nccl.ncclRecv(bytes, count, nccl.ncclInt8, peer, comm, stream), comm);
    }

    static void allReduce(Handles.Address elements, long count, boolean doubles, ncclComm comm, CUstream_st stream) {
        int type = doubles ? nccl.ncclFloat64 : nccl.ncclFloat32;
        check("ncclAllReduce", nccl.ncclAllReduce(elements, elements, count, type, nccl.ncclSum, comm, stream), comm);
    }

    /** Ends a communicator whose ranks all got here: what was queued is done first. Waits for them without a deadline. */
    static void end(ncclComm comm) {
        check("ncclCommFinalize", nccl.ncclCommFinalize(comm), comm);
        check("ncclCommDestroy", nccl.ncclCommDestroy(comm), null);
    }

    /** Stops whatever the communicator has on the device; its result says nothing that anyone could act on. */
    static void abort(ncclComm comm) {
        nccl.ncclCommAbort(comm);
    }

    private static void check(String call, int result, ncclComm comm) {
        if (result != nccl.ncclSuccess && result != nccl.ncclInProgress) {
            throw new KcpException(
                    Code.RANK_FAILED, call + " failed: " + text(result) + lastError(comm) + " result=" + result);
        }
    }

    private static String text(int result) {
        try (BytePointer text = nccl.ncclGetErrorString(result)) {
            return text.getString();
        }
    }

    private static String lastError(ncclComm comm) {
        try (BytePointer words = nccl.ncclGetLastError(comm)) {
            String text =
                    words == null || words.isNull() ? "" : words.getString().strip();
            return text.isEmpty() ? "" : " (" + text + ")";
        }
    }
}
