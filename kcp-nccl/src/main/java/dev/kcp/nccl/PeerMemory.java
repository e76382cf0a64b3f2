package dev.kcp.nccl;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.cuda.CudaDevice;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Optional;
import java.util.OptionalInt;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUipcMem_flags;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.bytedeco.cuda.cudart.CUipcMemHandle_v1;
import org.bytedeco.cuda.global.cudart;

/**
 * Memory of another rank's GPU, which this rank's GPU reads and writes as its own: of a thread of this process, or of a
 * process of this host. Only between GPUs that NVLink connects; elsewhere stores may be lost behind a host's bridges.
 */
final class PeerMemory implements AutoCloseable {
    private static final int HANDLE_BYTES = 64;
    private static final int FIXED_BYTES = 2 * Long.BYTES + HANDLE_BYTES;

    /** Tells this process from others, of other hosts and containers too. */
    private static final long PROCESS = new SecureRandom().nextLong();

    private final CudaDevice device;
    private final long address;
    private final Runnable end;
    private boolean closed;

    private PeerMemory(CudaDevice device, long address, Runnable end) {
        this.device = device;
        this.address = address;
        this.end = end;
    }

    /**
     * What another rank needs to reach memory of this one.
     *
     * @param address of a whole allocation
     */
    static byte[] card(CudaDevice device, long address) {
        byte[] handle = new byte[HANDLE_BYTES];
        device.makeCurrent();
        try (CUipcMemHandle_v1 memory = new CUipcMemHandle_v1()) {
            // Where memory cannot be shared between processes, threads still reach it.
            if (cudart.cuIpcGetMemHandle(memory, address) == CUresult.CUDA_SUCCESS) {
                memory.reserved().get(handle);
            }
        }
        byte[] uuid = device.uuid().getBytes(StandardCharsets.US_ASCII);
        return ByteBuffer.allocate(FIXED_BYTES + uuid.length)
                .putLong(PROCESS)
                .putLong(address)
                .put(handle)
                .put(uuid)
                .array();
    }

    /**
     * Opens another rank's memory; empty where the GPU is not visible here, is not connected with this one by NVLink, or
     * where the processes may not share memory.
     */
    static Optional<PeerMemory> open(CudaDevice device, byte[] card) {
        ByteBuffer fields = ByteBuffer.wrap(card);
        long process = fields.getLong();
        long address = fields.getLong();
        byte[] handle = new byte[HANDLE_BYTES];
        fields.get(handle);
        OptionalInt peer =
                CudaDevice.ordinalOf(StandardCharsets.US_ASCII.decode(fields).toString());
        if (peer.isEmpty()) {
            return Optional.empty();
        }
        device.makeCurrent();
        boolean isSame = peer.getAsInt() == device.ordinal();
        if (isSame && process == PROCESS) {
            return Optional.of(new PeerMemory(device, address, () -> {}));
        }
        if (!isSame && !device.isLinkedWith(peer.getAsInt())) {
            return Optional.empty();
        }
        return process == PROCESS ? ofThread(device, peer.getAsInt(), address) : ofProcess(device, handle);
    }

    private static Optional<PeerMemory> ofThread(CudaDevice device, int ordinal, long address) {
        CUdevice peer = new CUdevice();
        CUcontext context = new CUcontext();
        check("cuDeviceGet", JCudaDriver.cuDeviceGet(peer, ordinal));
        check("cuDevicePrimaryCtxRetain", JCudaDriver.cuDevicePrimaryCtxRetain(context, peer));
        Runnable release = () -> check("cuDevicePrimaryCtxRelease", JCudaDriver.cuDevicePrimaryCtxRelease(peer));
        device.makeCurrent();
        int code = JCudaDriver.cuCtxEnablePeerAccess(context, 0);
        if (code != CUresult.CUDA_SUCCESS && code != CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
            release.run();
            return Optional.empty();
        }
        return Optional.of(new PeerMemory(device, address, release));
    }

    private static Optional<PeerMemory> ofProcess(CudaDevice device, byte[] handle) {
        try (CUipcMemHandle_v1 memory = new CUipcMemHandle_v1()) {
            memory.reserved().put(handle);
            long[] mapped = new long[1];
            int code = cudart.cuIpcOpenMemHandle(mapped, memory, CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
            if (code != CUresult.CUDA_SUCCESS) {
                return Optional.empty();
            }
            long address = mapped[0];
            return Optional.of(new PeerMemory(
                    device, address, () -> check("cuIpcCloseMemHandle", cudart.cuIpcCloseMemHandle(address))));
        }
    }

    /** Where it begins, as this rank's GPU sees it. */
    long address() {
        return address;
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            device.makeCurrent();
            end.run();
        }
    }
}
