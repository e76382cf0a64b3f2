package dev.kcp.conv.cuda;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.cuda.CallArguments.Field;
import dev.kcp.conv.cuda.Kernels.Kernel;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.Launcher;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;

/** Checked mode's look at document offsets where they lie; four numbers come back, whatever the number of documents. */
final class OffsetCheck implements AutoCloseable {
    /** The kernel's result: index of the first wrong offset or -1, the offset before it, the one there, the last of all. */
    private static final int RESULT_INTS = 4;

    static final int THREADS = 1024;

    private final CudaStream stream;
    private final Kernel kernel;
    private final Launcher launcher;
    private final Tensor result;

    OffsetCheck(CudaStream stream, Kernels kernels) {
        this.stream = stream;
        kernel = kernels.get(ConvProgram.checkOffsets());
        launcher = new Launcher(stream, CallArguments.FIELDS, true);
        result = stream.zeros(DType.I32, RESULT_INTS);
    }

    /**
     * Waits for everything on the stream before, and for the look itself.
     *
     * @param cuSeqlens INT32 {@code [documents + 1]} on the stream's device
     * @param rows rows of x
     * @throws IllegalArgumentException as {@link ConvChecks#offsets} on the host
     */
    void run(Tensor cuSeqlens, long rows, boolean allowSlack) {
        launcher.clear();
        launcher.set(Field.BEGIN.ordinal(), cuSeqlens.address());
        launcher.set(Field.FRAGMENTS.ordinal(), cuSeqlens.columns() - 1);
        launcher.set(Field.OUT.ordinal(), result.address());
        launcher.launch(kernel.name(), kernel.function(), 1, 1, THREADS, 1, 0, false);
        try (Tensor host = stream.download(result)) {
            int[] found = host.segment().toArray(ValueLayout.JAVA_INT);
            if (found[0] >= 0) {
                throw ConvChecks.fault(found[0], found[1], found[2]);
            }
            ConvChecks.end(found[3], rows, allowSlack);
        }
    }

    @Override
    public void close() {
        CloseStack.closeAll(launcher, result);
    }
}
