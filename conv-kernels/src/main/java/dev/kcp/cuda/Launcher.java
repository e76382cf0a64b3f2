package dev.kcp.cuda;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.KcpException;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.lang.foreign.ValueLayout;
import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.cudart.CUlaunchConfig;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.Pointer;

/**
 * Launches kernels on one stream, and the one writer of their arguments. Each kernel takes one argument by value, a struct
 * whose fields are 8 bytes each. Everything that the driver reads is made once; a launch writes a few integers.
 */
public final class Launcher implements AutoCloseable {
    /*
     * CUlaunchConfig: gridDim x, y, z at 0, 4, 8; blockDim at 12, 16, 20; sharedMemBytes at 24; hStream at 32; attrs at 40;
     * numAttrs at 48. CUlaunchAttribute: id at 0, value at 8, 72 bytes.
     */
    private static final int CONFIG_BYTES = 56;
    private static final int ATTRIBUTE_BYTES = 72;

    private final CudaStream stream;
    private final boolean checked;
    private final Memory block = Memory.allocateHost(CONFIG_BYTES + ATTRIBUTE_BYTES);
    private final long config = block.address();
    private final CUlaunchConfig configPointer = Handles.launchConfig(config);
    private final Memory argument;
    private final long fields;
    private final Pointer parameters;

    /**
     * A launcher on a borrowed stream.
     *
     * @param fields most fields that a kernel's argument has
     * @param checked wait after each launch
     */
    public Launcher(CudaStream stream, int fields, boolean checked) {
        this.stream = stream;
        this.checked = checked;
        argument = Memory.allocateHost((long) fields * Long.BYTES);
        this.fields = argument.address();
        long attribute = config + CONFIG_BYTES;
        setInt(attribute, cudart.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        setInt(attribute + 8, 1);
        setLong(config + 32, stream.handle());
        setLong(config + 40, attribute);
        // The binding takes the one argument's address and makes the list of addresses around it.
        parameters = new Handles.Address().at(this.fields);
    }

    /** Sets all fields of the next launch's argument to zero. */
    public void clear() {
        HostMemory.zero(fields, argument.bytes());
    }

    /** Sets one field of the next launch's argument. */
    public void set(int field, long value) {
        setLong(fields + (long) field * Long.BYTES, value);
    }

    /** Sets the first fields of the next launch's argument. */
    public void setAll(long... values) {
        if (values.length * (long) Long.BYTES > argument.bytes()) {
            throw new IllegalArgumentException("more fields than an argument has: fields=" + values.length + " room="
                    + argument.bytes() / Long.BYTES);
        }
        for (int i = 0; i < values.length; i++) {
            set(i, values[i]);
        }
    }

    /** Where the next launches go: a stream's handle, or 0 for the own stream. */
    public void queue(long handle) {
        setLong(config + 32, handle == 0 ? stream.handle() : handle);
    }

    /**
     * Launches one kernel; the argument block is copied at once.
     *
     * @param early whether it may start before the launch before it ends; such a kernel waits for that end itself
     */
    public void launch(
            String name,
            CUfunc_st function,
            long gridX,
            int gridY,
            int blockX,
            int blockY,
            int sharedBytes,
            boolean early) {
        if (gridX > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(
                    "more blocks than a launch can have: blocks=" + gridX + " kernel=" + name);
        }
        setInt(config, (int) gridX);
        setInt(config + 4, gridY);
        setInt(config + 8, 1);
        setInt(config + 12, blockX);
        setInt(config + 16, blockY);
        setInt(config + 20, 1);
        setInt(config + 24, sharedBytes);
        setInt(config + 48, early ? 1 : 0);
        int result = cudart.cuLaunchKernelEx(configPointer, function, parameters, (Pointer) null);
        if (result != 0) {
            check("launch of " + name, result);
        }
        if (checked) {
            try {
                stream.synchronize();
            } catch (KcpException e) {
                throw new KcpException(e.code(), "kernel failed: " + e.getMessage() + " kernel=" + name, e);
            }
        }
    }

    private static void setInt(long address, int value) {
        HostMemory.ALL.set(ValueLayout.JAVA_INT, address, value);
    }

    private static void setLong(long address, long value) {
        HostMemory.ALL.set(ValueLayout.JAVA_LONG, address, value);
    }

    @Override
    public void close() {
        CloseStack.closeAll(block, argument);
    }
}
