package dev.kcp.cuda;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.files.NativeFolder;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.bytedeco.cuda.global.cudart;

/** The CUDA driver's first use, and the one place where its result codes become exceptions. */
public final class Driver {
    /** {@code CUresult cuCtxSetCurrent(CUcontext)}, before every call of a program; called directly, for it is called most. */
    private static MethodHandle setCurrent;

    private static boolean ready;

    private Driver() {}

    /**
     * Loads the bindings and initialises the driver, once per process.
     *
     * @throws KcpException with code MISSING_DEVICE and one line if a library is not there or the driver refuses
     */
    static synchronized void require() {
        if (ready) {
            return;
        }
        // The bindings fail in many lines, and for good, where a library is missing: look before they do.
        for (String library : List.of("libcuda.so.1", "libcudart.so.13")) {
            if (!canLoad(library)) {
                throw new KcpException(
                        Code.MISSING_DEVICE,
                        "no CUDA: the system cannot load " + library
                                + (library.contains("cudart")
                                        ? " (CUDA runtime 13; add its folder to LD_LIBRARY_PATH)"
                                        : " (NVIDIA driver: install it, or compute on the CPU)"));
            }
        }
        loadBindings();
        int code = JCudaDriver.cuInit(0);
        if (code != CUresult.CUDA_SUCCESS) {
            throw new KcpException(Code.MISSING_DEVICE, "no CUDA device: cuInit failed with " + describe(code));
        }
        setCurrent = setCurrent();
        ready = true;
    }

    @SuppressWarnings("restricted")
    private static MethodHandle setCurrent() {
        MemorySegment function = SymbolLookup.libraryLookup("libcuda.so.1", Arena.global())
                .find("cuCtxSetCurrent")
                .orElseThrow();
        return Linker.nativeLinker()
                .downcallHandle(function, FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG));
    }

    /** Makes a context the calling thread's. */
    static void makeCurrent(long context) {
        int code;
        try {
            code = (int) setCurrent.invokeExact(context);
        } catch (Throwable e) {
            throw new IllegalStateException("cuCtxSetCurrent could not be called", e);
        }
        check("cuCtxSetCurrent", code);
    }

    /** Whether the system finds and loads a library. */
    @SuppressWarnings("restricted")
    static boolean canLoad(String library) {
        try {
            SymbolLookup.libraryLookup(library, Arena.global());
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /** JCuda unpacks its library to one fixed name without a lock; ranks of one host that start together need one. */
    private static void loadBindings() {
        Path lock = NativeFolder.temporary().resolve("kcp-jcuda.lock");
        try (FileChannel channel = FileChannel.open(lock, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                FileLock held = channel.lock()) {
            JCudaDriver.setExceptionsEnabled(false);
            cudart.cuDriverGetVersion(new int[1]);
            assert held.isValid();
        } catch (IOException e) {
            throw new KcpException(Code.MISSING_DEVICE, "no place to unpack the CUDA bindings: " + lock, e);
        } catch (LinkageError e) {
            throw new KcpException(
                    Code.MISSING_DEVICE,
                    "the CUDA bindings do not load: "
                            + NativeFolder.reason(e, NativeFolder.temporary(), NativeFolder.ofJavaCpp()),
                    e);
        }
    }

    /** Throws unless the driver's call succeeded. */
    public static void check(String call, int code) {
        if (code != CUresult.CUDA_SUCCESS) {
            throw new KcpException(Code.RANK_FAILED, call + " failed: " + describe(code));
        }
    }

    private static String describe(int code) {
        String[] name = new String[1];
        String[] text = new String[1];
        JCudaDriver.cuGetErrorName(code, name);
        JCudaDriver.cuGetErrorString(code, text);
        return name[0] + " (" + text[0] + ") code=" + code;
    }
}
