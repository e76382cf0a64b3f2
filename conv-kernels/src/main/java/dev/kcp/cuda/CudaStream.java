package dev.kcp.cuda;

import static dev.kcp.Arguments.present;
import static dev.kcp.cuda.Driver.check;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import jcuda.driver.CUDA_MEMCPY2D;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUmemorytype;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;

/**
 * Work in order on one device: launches, copies, and memory that is given and taken back in that order. Created here and
 * owned, or borrowed from another framework of the process. Close it after the tensors that were allocated on it.
 */
public final class CudaStream implements AutoCloseable {
    private static final int NON_BLOCKING = 1;
    private static final int NOT_CAPTURING = 0;

    private final CudaDevice device;
    private final CUstream stream;
    private final long handle;
    private final boolean owner;
    private GraphMemory graphMemory;
    private boolean closed;

    private CudaStream(CudaDevice device, CUstream stream, boolean owner) {
        this.device = device;
        this.stream = stream;
        this.handle = Handles.addressOf(stream);
        this.owner = owner;
    }

    /** A new stream that does not wait for the default one. */
    public static CudaStream create(CudaDevice device) {
        present("device", device).makeCurrent();
        CUstream stream = new CUstream();
        check("cuStreamCreate", JCudaDriver.cuStreamCreate(stream, NON_BLOCKING));
        return new CudaStream(device, stream, true);
    }

    /** As {@link #create}, for work that goes before that of other streams wherever the device has to choose. */
    public static CudaStream createUrgent(CudaDevice device) {
        present("device", device).makeCurrent();
        int[] least = new int[1];
        int[] greatest = new int[1];
        check("cuCtxGetStreamPriorityRange", JCudaDriver.cuCtxGetStreamPriorityRange(least, greatest));
        CUstream stream = new CUstream();
        check("cuStreamCreateWithPriority", JCudaDriver.cuStreamCreateWithPriority(stream, NON_BLOCKING, greatest[0]));
        return new CudaStream(device, stream, true);
    }

    /**
     * A stream that somebody else owns.
     *
     * @param handle its {@code CUstream}; 0 is the default stream
     */
    public static CudaStream borrow(CudaDevice device, long handle) {
        return new CudaStream(present("device", device), Handles.jcudaStream(handle), false);
    }

    /** The device that the stream belongs to. */
    public CudaDevice device() {
        return device;
    }

    /** The {@code CUstream}. */
    public long handle() {
        if (closed) {
            throw new IllegalStateException("the stream was closed: device=" + device.device());
        }
        return handle;
    }

    public CUstream jcuda() {
        handle();
        return stream;
    }

    /** Waits until everything on the stream is done. */
    public void synchronize() {
        device.makeCurrent();
        check("cuStreamSynchronize", JCudaDriver.cuStreamSynchronize(jcuda()));
    }

    /** Whether calls are being recorded into a graph. */
    public boolean isCapturing() {
        device.makeCurrent();
        int[] status = new int[1];
        check("cuStreamIsCapturing", JCudaDriver.cuStreamIsCapturing(jcuda(), status));
        return status[0] != NOT_CAPTURING;
    }

    /** Device memory, owned by the caller and freed in stream order. Not cleared. */
    public Memory allocate(long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("negative allocation: bytes=" + bytes);
        }
        device.makeCurrent();
        Device where = device.device();
        if (bytes == 0) {
            return Memory.own(where, 0, 0, () -> {});
        }
        GraphMemory recording = graphMemory;
        if (recording != null) {
            return recording.allocate(bytes);
        }
        CUdeviceptr pointer = new CUdeviceptr();
        check("cuMemAllocAsync(" + bytes + " bytes)", JCudaDriver.cuMemAllocAsync(pointer, bytes, jcuda()));
        return Memory.own(where, Handles.addressOf(pointer), bytes, () -> free(pointer));
    }

    /** While a graph is captured, what is allocated here belongs to it; null ends that. */
    void recordInto(GraphMemory memory) {
        graphMemory = memory;
    }

    /** Whether what is allocated here now belongs to a graph. */
    public boolean isRecording() {
        return graphMemory != null;
    }

    private void free(CUdeviceptr pointer) {
        device.makeCurrent();
        if (closed) {
            check("cuMemFree", JCudaDriver.cuMemFree(pointer));
        } else {
            check("cuMemFreeAsync", JCudaDriver.cuMemFreeAsync(pointer, stream));
        }
    }

    /** Sets bytes, in stream order. That the range is there, only the caller knows. */
    public void fill(long address, byte value, long bytes) {
        range("address", address, bytes);
        if (bytes > 0) {
            device.makeCurrent();
            check("cuMemsetD8Async", JCudaDriver.cuMemsetD8Async(Handles.device(address), value, bytes, jcuda()));
        }
    }

    /** Sets the first {@code widthBytes} of rows to zero, in stream order. */
    public void zeroRows(long address, long pitchBytes, long widthBytes, long rows) {
        if (rows > 0) {
            device.makeCurrent();
            check(
                    "cuMemsetD2D8Async",
                    JCudaDriver.cuMemsetD2D8Async(
                            Handles.device(address), pitchBytes, (byte) 0, widthBytes, rows, jcuda()));
        }
    }

    /** A dense tensor of zeros, owned by the caller. */
    public Tensor zeros(DType dtype, long... shape) {
        Tensor tensor = uninitialized(dtype, shape);
        fill(tensor.address(), (byte) 0, bytes(tensor));
        return tensor;
    }

    /** A dense tensor of whatever the memory held, owned by the caller. */
    public Tensor uninitialized(DType dtype, long... shape) {
        return Tensor.adopt(allocate(Tensor.bytes(dtype, shape)), dtype, shape);
    }

    /** A dense copy of a dense host tensor on the device, owned by the caller. Waits. */
    public Tensor upload(Tensor host) {
        long from = present("host", host).segment().address();
        Tensor copy = uninitialized(host.dtype(), host.shape());
        copyToDevice(from, copy);
        synchronize();
        return copy;
    }

    private void copyToDevice(long from, Tensor to) {
        long bytes = bytes(to);
        if (bytes > 0) {
            copyToDevice(from, to.address(), bytes);
        }
    }

    /** Copies host memory, which must stay as it is until the stream is past the copy. */
    public void copyToDevice(long from, long to, long bytes) {
        device.makeCurrent();
        check(
                "cuMemcpyHtoDAsync",
                JCudaDriver.cuMemcpyHtoDAsync(Handles.device(to), Handles.host(from), bytes, jcuda()));
    }

    /** Overwrites a dense device tensor with a dense host tensor's elements. Waits. */
    public void write(Tensor host, Tensor to) {
        here("to", to);
        if (present("host", host).dtype() != to.dtype() || host.elements() != to.elements() || !to.isDense()) {
            throw new IllegalArgumentException("tensors differ: from=" + host + " to=" + to);
        }
        copyToDevice(host.segment().address(), to);
        synchronize();
    }

    /** A dense copy of a dense device tensor on the host, owned by the caller. Waits. */
    public Tensor download(Tensor source) {
        here("source", source);
        if (!source.isDense()) {
            throw new IllegalArgumentException("rows have gaps: tensor=" + source);
        }
        Tensor host = Tensor.zeros(source.dtype(), source.shape());
        long bytes = bytes(source);
        if (bytes > 0) {
            device.makeCurrent();
            check(
                    "cuMemcpyDtoHAsync",
                    JCudaDriver.cuMemcpyDtoHAsync(
                            Handles.host(host.segment().address()), Handles.device(source.address()), bytes, jcuda()));
            synchronize();
        }
        return host;
    }

    /** Copies device memory, in stream order. That both ranges are there, only the caller knows. */
    public void copy(long from, long to, long bytes) {
        range("from", from, bytes);
        range("to", to, bytes);
        if (bytes == 0) {
            return;
        }
        device.makeCurrent();
        check(
                "cuMemcpyDtoDAsync",
                JCudaDriver.cuMemcpyDtoDAsync(Handles.device(to), Handles.device(from), bytes, jcuda()));
    }

    private void here(String name, Tensor tensor) {
        if (!present(name, tensor).device().equals(device.device())) {
            throw new IllegalArgumentException(
                    name + " is on another device: device=" + tensor.device() + " wanted=" + device.device());
        }
    }

    private static void range(String name, long address, long bytes) {
        if (bytes < 0 || address == 0 && bytes > 0) {
            throw new IllegalArgumentException(
                    "no such memory: " + name + "=0x" + Long.toHexString(address) + " bytes=" + bytes);
        }
    }

    /** Copies the first {@code widthBytes} of rows of device memory, in stream order. */
    public void copyRows(long from, long fromPitch, long to, long toPitch, long widthBytes, long rows) {
        CUDA_MEMCPY2D copy = new CUDA_MEMCPY2D();
        copy.srcMemoryType = CUmemorytype.CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = Handles.device(from);
        copy.srcPitch = fromPitch;
        copy.dstMemoryType = CUmemorytype.CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = Handles.device(to);
        copy.dstPitch = toPitch;
        copy.WidthInBytes = widthBytes;
        copy.Height = rows;
        device.makeCurrent();
        check("cuMemcpy2DAsync", JCudaDriver.cuMemcpy2DAsync(copy, jcuda()));
    }

    private static long bytes(Tensor tensor) {
        return tensor.elements() * tensor.dtype().bytes();
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            if (owner) {
                device.makeCurrent();
                check("cuStreamDestroy", JCudaDriver.cuStreamDestroy(stream));
            }
        }
    }
}
