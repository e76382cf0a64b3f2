package dev.kcp.cuda;

import dev.kcp.tensor.CloseStack;
import java.util.HashMap;
import java.util.Map;
import org.bytedeco.cuda.cudart.CUfunc_st;

/**
 * One file of kernels and the way to launch them on a stream, for programs beside the convolution's. Each kernel takes one
 * argument by value, a struct whose fields are 8 bytes each; the next launch copies what was {@link #set}. One instance
 * serves one thread. Borrows the stream.
 */
public final class CudaPrograms implements AutoCloseable {
    private final CudaStream stream;
    private final Launcher launcher;
    private final KernelModule module;
    private final Map<String, CUfunc_st> functions = new HashMap<>();
    private boolean closed;

    private CudaPrograms(CudaStream stream, int words, KernelModule module) {
        this.stream = stream;
        this.module = module;
        launcher = new Launcher(stream, words, false);
    }

    /**
     * Loads a file of kernels.
     *
     * @param owner class in whose package the build put it
     * @param name of its source, without folder and ending
     * @param words most fields that a kernel's argument has
     * @throws dev.kcp.KcpException with code MISSING_DEVICE if this build or this GPU has no such kernels
     */
    public static CudaPrograms load(Class<?> owner, CudaStream stream, String name, int words) {
        return new CudaPrograms(
                stream, words, KernelModule.load(owner, stream.device(), name, KernelModule.Origin.BUILT_OR_COMPILED));
    }

    /** The next launch's argument, from its first field on. */
    public CudaPrograms set(long... fields) {
        launcher.setAll(fields);
        return this;
    }

    /** Queues a kernel; no blocks are no launch. */
    public void launch(String entry, long blocks, int blockThreads) {
        launch(entry, blocks, blockThreads, 0);
    }

    /**
     * Queues a kernel; no blocks are no launch.
     *
     * @param sharedBytes shared memory of a block beside what the kernel declares; the same in all launches of an entry
     */
    public void launch(String entry, long blocks, int blockThreads, int sharedBytes) {
        if (blocks == 0) {
            return;
        }
        CUfunc_st function = functions.computeIfAbsent(entry, name -> module.function(name, sharedBytes));
        stream.device().makeCurrent();
        launcher.launch(entry, function, blocks, 1, blockThreads, 1, sharedBytes, false);
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            CloseStack.closeAll(launcher, module);
        }
    }
}
