package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.KcpException;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.OptionalInt;
import java.util.stream.IntStream;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_P2PAttribute;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUresult;
import jcuda.driver.CUuuid;
import jcuda.driver.JCudaDriver;
import org.bytedeco.cuda.cudart.CUmemPoolHandle_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.LongPointer;

/**
 * One GPU and its primary context, which the CUDA runtime and other frameworks of the process share. Owned by whoever
 * opened it; close it after everything that was made on it.
 */
public final class CudaDevice implements AutoCloseable {
    private final int ordinal;
    private final CUdevice handle = new CUdevice();
    private final CUcontext context = new CUcontext();
    private final long contextHandle;
    private boolean closed;

    private CudaDevice(int ordinal) {
        this.ordinal = ordinal;
        check("cuDeviceGet", JCudaDriver.cuDeviceGet(handle, ordinal));
        check("cuDevicePrimaryCtxRetain", JCudaDriver.cuDevicePrimaryCtxRetain(context, handle));
        contextHandle = Handles.addressOf(context);
        makeCurrent();
        keepFreedMemory();
    }

    /**
     * Opens a device.
     *
     * @param ordinal its number among the visible ones
     * @throws KcpException with code MISSING_DEVICE if there is no driver, or no such device
     */
    public static CudaDevice open(int ordinal) {
        int count = count();
        if (ordinal < 0 || ordinal >= count) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "no such CUDA device: ordinal=" + ordinal + " visibleDevices=" + count);
        }
        return new CudaDevice(ordinal);
    }

    /**
     * Visible devices.
     *
     * @throws KcpException with code MISSING_DEVICE if there is no driver
     */
    public static int count() {
        Driver.require();
        int[] count = new int[1];
        check("cuDeviceGetCount", JCudaDriver.cuDeviceGetCount(count));
        return count[0];
    }

    /**
     * The device of one of several processes on a host: the only visible one, where a launcher chose it, or that of the
     * process's number.
     *
     * @param localRank the process's number on its host
     * @throws KcpException with code MISSING_DEVICE if there are fewer devices
     */
    public static int ordinalFor(int localRank) {
        int visible = count();
        if (visible == 1) {
            return 0;
        }
        if (localRank >= visible) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "every rank of a host needs a GPU of its own: localRank=" + localRank + " visibleDevices="
                            + visible);
        }
        return localRank;
    }

    /** Memory freed in stream order stays with the process, so that the next call's buffers cost no system call. */
    private void keepFreedMemory() {
        try (CUmemPoolHandle_st pool = new CUmemPoolHandle_st();
                LongPointer all = new LongPointer(1)) {
            check("cuDeviceGetDefaultMemPool", cudart.cuDeviceGetDefaultMemPool(pool, ordinal));
            all.put(-1L);
            check(
                    "cuMemPoolSetAttribute",
                    cudart.cuMemPoolSetAttribute(pool, cudart.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, all));
        }
    }

    /** Makes the context the calling thread's: what every driver call of that thread then works on. */
    public void makeCurrent() {
        if (closed) {
            throw new IllegalStateException("the device was closed: device=" + device());
        }
        Driver.makeCurrent(contextHandle);
    }

    /** The device as tensors name it. */
    public Device device() {
        return new Device(Device.Kind.CUDA, ordinal);
    }

    /** Its number among the visible devices. */
    public int ordinal() {
        return ordinal;
    }

    /** The product's name, as in {@code NVIDIA H200}. */
    public String name() {
        byte[] name = new byte[128];
        check("cuDeviceGetName", JCudaDriver.cuDeviceGetName(name, name.length, handle));
        int end = 0;
        while (end < name.length && name[end] != 0) {
            end++;
        }
        return new String(name, 0, end, StandardCharsets.US_ASCII);
    }

    /** The number of a device among the visible ones, by its {@link #uuid()}; empty if it is not visible here. */
    public static OptionalInt ordinalOf(String uuid) {
        return IntStream.range(0, count())
                .filter(ordinal -> {
                    CUdevice device = new CUdevice();
                    check("cuDeviceGet", JCudaDriver.cuDeviceGet(device, ordinal));
                    return uuid(device).equals(uuid);
                })
                .findFirst();
    }

    /** Whether this device and another reach each other's memory over NVLink, which alone has their atomics. */
    public boolean isLinkedWith(int otherOrdinal) {
        CUdevice other = new CUdevice();
        check("cuDeviceGet", JCudaDriver.cuDeviceGet(other, otherOrdinal));
        int[] value = new int[1];
        return JCudaDriver.cuDeviceGetP2PAttribute(
                                value,
                                CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                handle,
                                other)
                        == CUresult.CUDA_SUCCESS
                && value[0] == 1;
    }

    /** The device's own id, as {@code nvidia-smi -L} shows it. */
    public String uuid() {
        return uuid(handle);
    }

    private static String uuid(CUdevice device) {
        CUuuid uuid = new CUuuid();
        check("cuDeviceGetUuid", JCudaDriver.cuDeviceGetUuid(uuid, device));
        String hex = HexFormat.of().formatHex(uuid.bytes);
        return "GPU-" + hex.substring(0, 8) + "-" + hex.substring(8, 12) + "-" + hex.substring(12, 16) + "-"
                + hex.substring(16, 20) + "-" + hex.substring(20);
    }

    /** Compute capability as major * 10 + minor. */
    public int computeCapability() {
        return attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10
                + attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    }

    private int attribute(int which) {
        int[] value = new int[1];
        check("cuDeviceGetAttribute", JCudaDriver.cuDeviceGetAttribute(value, which, handle));
        return value[0];
    }

    /** Device memory of no stream, which other ranks may open; not cleared. */
    public Memory allocate(long bytes) {
        makeCurrent();
        CUdeviceptr pointer = new CUdeviceptr();
        check("cuMemAlloc(" + bytes + " bytes)", JCudaDriver.cuMemAlloc(pointer, bytes));
        return Memory.own(device(), Handles.addressOf(pointer), bytes, () -> {
            makeCurrent();
            check("cuMemFree", JCudaDriver.cuMemFree(pointer));
        });
    }

    /** Page-locked host memory, which the device reads and writes too; not cleared. */
    public Memory allocatePinned(long bytes) {
        makeCurrent();
        Pointer pointer = new Pointer();
        check(
                "cuMemHostAlloc(" + bytes + " bytes)",
                JCudaDriver.cuMemHostAlloc(pointer, bytes, JCudaDriver.CU_MEMHOSTALLOC_DEVICEMAP));
        return Memory.own(Device.CPU, Handles.addressOf(pointer), bytes, () -> {
            makeCurrent();
            check("cuMemFreeHost", JCudaDriver.cuMemFreeHost(pointer));
        });
    }

    /** Bytes of device memory that are free now. */
    public long freeBytes() {
        makeCurrent();
        long[] free = new long[1];
        check("cuMemGetInfo", JCudaDriver.cuMemGetInfo(free, new long[1]));
        return free[0];
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            check("cuDevicePrimaryCtxRelease", JCudaDriver.cuDevicePrimaryCtxRelease(handle));
        }
    }
}
