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
import org.bytedeco.cuda.cudart.CUstream_st;
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
        return new CUfunc_st(new Address().at(addressOf(function)));
    }

    /** A stream that somebody else owns. */
    public static CUstream_st stream(long handle) {
        return new CUstream_st(new Address().at(handle));
    }

    static CUlaunchConfig launchConfig(long address) {
        return new CUlaunchConfig(new Address().at(address));
    }

    /** An address that somebody else owns, as JavaCPP's bindings want it; one object serves call after call. */
    public static final class Address extends Pointer {
        public Address() {
            super((Pointer) null);
        }

        public Address at(long nativeAddress) {
            address = nativeAddress;
            return this;
        }
    }

    private static final class HostPointer extends jcuda.Pointer {
        HostPointer(long address) {
            super(address);
        }
    }
}
