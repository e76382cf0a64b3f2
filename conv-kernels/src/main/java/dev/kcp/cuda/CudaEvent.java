package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;

/** A point in a stream's work, with its time. Owned by whoever made it. */
public final class CudaEvent implements AutoCloseable {
    private final CUevent event = new CUevent();
    private boolean closed;

    /** A point with a time. */
    public CudaEvent(CudaDevice device) {
        this(device, 0);
    }

    private CudaEvent(CudaDevice device, int flags) {
        device.makeCurrent();
        check("cuEventCreate", JCudaDriver.cuEventCreate(event, flags));
    }

    /** A point without a time, which costs less: for order alone. */
    public static CudaEvent untimed(CudaDevice device) {
        return new CudaEvent(device, CUevent_flags.CU_EVENT_DISABLE_TIMING);
    }

    /** Marks the end of what is on the stream now. */
    public void record(CudaStream stream) {
        check("cuEventRecord", JCudaDriver.cuEventRecord(event, stream.jcuda()));
    }

    /** Whether everything before the point is done. */
    public boolean isReached() {
        int code = JCudaDriver.cuEventQuery(event);
        if (code == CUresult.CUDA_ERROR_NOT_READY) {
            return false;
        }
        check("cuEventQuery", code);
        return true;
    }

    /** Lets a stream wait, on the device, until the point is reached. */
    public void holdBack(CudaStream stream) {
        check("cuStreamWaitEvent", JCudaDriver.cuStreamWaitEvent(stream.jcuda(), event, 0));
    }

    /** Milliseconds from an earlier event to this one; both must have been reached. */
    public float millisSince(CudaEvent earlier) {
        float[] millis = new float[1];
        check("cuEventElapsedTime", JCudaDriver.cuEventElapsedTime(millis, earlier.event, event));
        return millis[0];
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            check("cuEventDestroy", JCudaDriver.cuEventDestroy(event));
        }
    }
}
