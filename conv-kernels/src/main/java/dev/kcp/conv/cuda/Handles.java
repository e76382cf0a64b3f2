package dev.kcp.conv.cuda;

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
final class Handles {
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

    static long addressOf(NativePointerObject object) {
        return (long) NATIVE_POINTER.get(object);
    }

    static CUstream jcudaStream(long handle) {
        CUstream stream = new CUstream();
        NATIVE_POINTER.set(stream, handle);
        return stream;
    }

    static CUdeviceptr device(long address) {
        return new CUdeviceptr().withByteOffset(address);
    }

    static jcuda.Pointer host(long address) {
        return new HostPointer(address);
    }

    static CUfunc_st function(CUfunction function) {
        return new FunctionPointer(addressOf(function));
    }

    static CUlaunchConfig launchConfig(long address) {
        return new ConfigPointer(address);
    }

    static Pointer pointer(long address) {
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
