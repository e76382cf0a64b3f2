package dev.kcp.cuda;

import dev.kcp.KcpException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import jcuda.NativePointerObject;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUfunction;
import jcuda.driver.CUstream;
import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.cudart.CUlaunchConfig;
import org.bytedeco.javacpp.Pointer;

/** Native addresses as each of the two bindings wants them. Everywhere else an address is a long. */
public final class Handles {
    private static final VarHandle NATIVE_POINTER;

    static {
        try {
            NATIVE_POINTER = MethodHandles.privateLookupIn(NativePointerObject.class, MethodHandles.lookup())
                    .findVarHandle(NativePointerObject.class, "nativePointer", long.class);
        } catch (ReflectiveOperationException e) {
            throw new KcpException(KcpException.Code.MISSING_DEVICE, "another JCuda than the one built against", e);
        }
    }

    private Handles() {}

    public static long addressOf(NativePointerObject object) {
        return (long) NATIVE_POINTER.get(object);
    }

    public static CUstream jcudaStream(long handle) {
        CUstream stream = new CUstream();
        NATIVE_POINTER.set(stream, handle);
        return stream;
    }

    public static CUdeviceptr device(long address) {
        return new CUdeviceptr().withByteOffset(address);
    }

    public static jcuda.Pointer host(long address) {
        return new HostPointer(address);
    }

    public static CUfunc_st function(CUfunction function) {
        return new FunctionPointer(addressOf(function));
    }

    public static CUlaunchConfig launchConfig(long address) {
        return new ConfigPointer(address);
    }

    public static Pointer pointer(long address) {
        return new PlainPointer(address);
    }

    private static final class HostPointer extends jcuda.Pointer {
        HostPointer(long address) {
            super(address);
        }
    }

    private static final class FunctionPointer extends CUfunc_st {
        FunctionPointer(long address) {
            super((Pointer) null);
            this.address = address;
        }
    }

    private static final class ConfigPointer extends CUlaunchConfig {
        ConfigPointer(long address) {
            super((Pointer) null);
            this.address = address;
        }
    }

    private static final class PlainPointer extends Pointer {
        PlainPointer(long address) {
            super((Pointer) null);
            this.address = address;
        }
    }
}
