package dev.kcp.train.cuda;

import dev.kcp.cuda.CudaPrograms;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.HostCopies;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.AdamW;
import dev.kcp.train.Parameter;
import dev.kcp.train.ParameterBuffer;
import dev.kcp.train.ParameterTable;
import dev.kcp.train.Weights;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/** The gradient's norm and {@link AdamW} on the device, one launch for all parameters. */
final class CudaOptimizer implements AutoCloseable {
    /** Elements that share a mark of decay: parameters start at multiples of it. */
    private static final int MARK_ELEMENTS = 16;

    private static final int VECTOR_ELEMENTS = 4;

    /** Partial sums of the norm, in train.cu as here. */
    static final int NORM_BLOCKS = 1024;

    private final CudaStream stream;
    private final CudaPrograms programs;
    private final HostCopies copies;
    private final Memory partials;
    private ParameterTable marked;
    private Memory marks;

    CudaOptimizer(CudaStream stream, CudaPrograms programs, HostCopies copies) {
        this.stream = stream;
        this.programs = programs;
        this.copies = copies;
        partials = stream.allocate((long) NORM_BLOCKS * Double.BYTES);
        marks = stream.allocate(0);
    }

    void norm(Tensor gradients, Tensor norm) {
        long vectors = gradients.elements() / VECTOR_ELEMENTS;
        long blocks = Math.clamp(
                (vectors + CudaTrainEngine.BLOCK_THREADS - 1) / CudaTrainEngine.BLOCK_THREADS, 1, NORM_BLOCKS);
        programs.set(gradients.address(), partials.address(), norm.address(), vectors, blocks)
                .launch("train_squares", blocks, CudaTrainEngine.BLOCK_THREADS);
        programs.launch("train_root", 1, NORM_BLOCKS);
    }

    void update(
            Weights weights,
            ParameterBuffer gradients,
            ParameterBuffer first,
            ParameterBuffer second,
            Tensor norm,
            Tensor factors) {
        Tensor values = weights.values().flat();
        if (weights.forProducts().flat().dtype() != DType.BF16) {
            throw new IllegalArgumentException("products read BF16 on a GPU: dtype="
                    + weights.forProducts().flat().dtype());
        }
        mark(gradients.table());
        long vectors = values.elements() / VECTOR_ELEMENTS;
        programs.set(
                        values.address(),
                        weights.forProducts().address(),
                        gradients.address(),
                        first.address(),
                        second.address(),
                        norm.address(),
                        factors.address(),
                        marks.address(),
                        vectors,
                        Float.floatToRawIntBits(AdamW.BETA1),
                        Float.floatToRawIntBits(AdamW.BETA2),
                        Float.floatToRawIntBits(AdamW.EPSILON))
                .launch(
                        "train_adam",
                        (vectors + CudaTrainEngine.BLOCK_THREADS - 1) / CudaTrainEngine.BLOCK_THREADS,
                        CudaTrainEngine.BLOCK_THREADS);
    }

    /** Tells the device which elements decay; once for a table, in a step that is not recorded. */
    private void mark(ParameterTable table) {
        if (table == marked) {
            return;
        }
        byte[] host = new byte[Math.toIntExact((table.bufferElements() + MARK_ELEMENTS - 1) / MARK_ELEMENTS)];
        for (Parameter parameter : table.all()) {
            if (parameter.decayed()) {
                int begin = (int) (parameter.offset() / MARK_ELEMENTS);
                long end = parameter.offset() + parameter.elements();
                Arrays.fill(host, begin, (int) ((end + MARK_ELEMENTS - 1) / MARK_ELEMENTS), (byte) 1);
            }
        }
        marks.close();
        marks = stream.allocate(host.length);
        copies.write(MemorySegment.ofArray(host), marks.address());
        marked = table;
    }

    @Override
    public void close() {
        CloseStack.closeAll(partials, marks);
    }
}
