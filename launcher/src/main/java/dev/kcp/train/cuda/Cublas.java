package dev.kcp.train.cuda;

import static org.bytedeco.cuda.global.cublas.*;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.Handles;
import dev.kcp.files.NativeFolder;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.bytedeco.cuda.cublas.cublasLtContext;
import org.bytedeco.cuda.cublas.cublasLtMatmulAlgo_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulDescOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulHeuristicResult_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulPreferenceOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatrixLayoutOpaque_t;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;

/**
 * cuBLAS on one stream, and the only class that touches its binding: products of BF16 with FP32 sums, one work space, and
 * algorithms that are chosen once for a shape and then named in every call, so that a product's bits do not depend on what
 * else is multiplied with it.
 */
final class Cublas implements AutoCloseable {
    private static final long WORKSPACE_BYTES = 64L << 20;
    private static final int CANDIDATES = 16;

    /** How a product is made: an algorithm, and what cuBLAS wants to be told of the operands. */
    private record Plan(
            cublasLtMatmulDescOpaque_t description,
            cublasLtMatrixLayoutOpaque_t a,
            cublasLtMatrixLayoutOpaque_t b,
            cublasLtMatrixLayoutOpaque_t d,
            cublasLtMatmulAlgo_t algorithm) {}

    /**
     * What an algorithm is chosen by.
     *
     * @param shape that it should be good at
     * @param least that it must serve too
     */
    record Choice(Product shape, Product least, boolean mayCutSums) {}

    private record Wanted(Product product, Choice choice) {}

    private final CudaStream stream;
    private final cublasLtContext context = new cublasLtContext();
    private final Memory workspace;
    private final FloatPointer zero = new FloatPointer(0f);
    private final FloatPointer one = new FloatPointer(1f);
    private final Map<Choice, cublasLtMatmulAlgo_t> algorithms = new HashMap<>();
    private final Map<Wanted, Plan> plans = new HashMap<>();
    private final Handles.Address aAddress = new Handles.Address();
    private final Handles.Address bAddress = new Handles.Address();
    private final Handles.Address dAddress = new Handles.Address();
    private final Handles.Address workspaceAddress = new Handles.Address();
    private final CUstream_st queue;
    private boolean closed;

    /**
     * @param stream borrowed
     * @param folder as {@link CublasLibrary} found it
     * @throws KcpException with code MISSING_DEVICE if the library does not load
     */
    Cublas(CudaStream stream, Path folder) {
        this.stream = stream;
        load(folder);
        stream.device().makeCurrent();
        check("cublasLtCreate", cublasLtCreate(context));
        workspace = stream.allocate(WORKSPACE_BYTES);
        workspaceAddress.at(workspace.address());
        queue = Handles.stream(stream.handle());
    }

    @SuppressWarnings("restricted")
    private static void load(Path folder) {
        try {
            // Named by their paths, so that the binding's own search cannot find others.
            for (String name : CublasLibrary.FILE_NAMES) {
                System.load(folder.resolve(name).toAbsolutePath().toString());
            }
            cublasLtGetVersion();
        } catch (LinkageError e) {
            throw new KcpException(
                    Code.MISSING_DEVICE,
                    "cuBLAS cannot be loaded (" + NativeFolder.reason(e, NativeFolder.ofJavaCpp()) + "): folder="
                            + folder,
                    e);
        }
    }

    /** Version of the loaded library, as major * 10000 + minor * 100 + patch. */
    static long version() {
        return cublasLtGetVersion();
    }

    /**
     * Queues a product.
     *
     * @param adds whether d is added to instead of overwritten
     * @param c what is added where adds is true, laid out as d, which it may be
     */
    void run(Product product, Choice choice, long a, long b, boolean adds, long c, long d) {
        stream.device().makeCurrent();
        Plan plan = plan(product, choice);
        Pointer added = new Handles.Address().at(adds ? c : d);
        check(
                "cublasLtMatmul",
                cublasLtMatmul(
                        context,
                        plan.description(),
                        one,
                        aAddress.at(a),
                        plan.a(),
                        bAddress.at(b),
                        plan.b(),
                        adds ? one : zero,
                        added,
                        plan.d(),
                        dAddress.at(d),
                        plan.d(),
                        plan.algorithm(),
                        workspaceAddress,
                        WORKSPACE_BYTES,
                        queue));
    }

    private Plan plan(Product product, Choice choice) {
        Wanted wanted = new Wanted(product, choice);
        Plan plan = plans.get(wanted);
        if (plan == null) {
            cublasLtMatmulAlgo_t algorithm = algorithms.get(choice);
            if (algorithm == null) {
                algorithm = choose(choice);
                algorithms.put(choice, algorithm);
            }
            plan = describe(product, algorithm);
            if (!serves(plan, algorithm)) {
                free(plan);
                throw new IllegalStateException("cuBLAS cannot make a product in the way chosen for its kind: product="
                        + product + " choice=" + choice);
            }
            plans.put(wanted, plan);
        }
        return plan;
    }

    private cublasLtMatmulAlgo_t choose(Choice choice) {
        Plan shape = describe(choice.shape(), null);
        Plan least = describe(choice.least(), null);
        PointerPointer<cublasLtMatmulPreferenceOpaque_t> made = new PointerPointer<>(1);
        check("cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate(made));
        cublasLtMatmulPreferenceOpaque_t preference = made.get(cublasLtMatmulPreferenceOpaque_t.class);
        try (LongPointer workspaceBytes = new LongPointer(1L).put(WORKSPACE_BYTES);
                IntPointer reductions = new IntPointer(1L)
                        .put(
                                choice.mayCutSums()
                                        ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                        : CUBLASLT_REDUCTION_SCHEME_NONE);
                IntPointer count = new IntPointer(1L);
                cublasLtMatmulHeuristicResult_t found = new cublasLtMatmulHeuristicResult_t(CANDIDATES)) {
            set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspaceBytes, Long.BYTES);
            set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions, Integer.BYTES);
            check(
                    "cublasLtMatmulAlgoGetHeuristic",
                    cublasLtMatmulAlgoGetHeuristic(
                            context,
                            shape.description(),
                            shape.a(),
                            shape.b(),
                            shape.d(),
                            shape.d(),
                            preference,
                            CANDIDATES,
                            found,
                            count));
            for (int i = 0; i < count.get(); i++) {
                cublasLtMatmulAlgo_t algorithm = copy(found.position(i).algo());
                if (serves(least, algorithm)) {
                    found.position(0);
                    return algorithm;
                }
                algorithm.close();
            }
            found.position(0);
            throw new IllegalStateException("cuBLAS knows no way to make a product: choice=" + choice + " candidates="
                    + count.get() + " version=" + version());
        } finally {
            cublasLtMatmulPreferenceDestroy(preference);
            made.close();
            free(shape);
            free(least);
        }
    }

    private static cublasLtMatmulAlgo_t copy(cublasLtMatmulAlgo_t from) {
        cublasLtMatmulAlgo_t to = new cublasLtMatmulAlgo_t();
        Pointer.memcpy(to, from, to.sizeof());
        return to;
    }

    private boolean serves(Plan plan, cublasLtMatmulAlgo_t algorithm) {
        try (cublasLtMatmulHeuristicResult_t result = new cublasLtMatmulHeuristicResult_t()) {
            int status = cublasLtMatmulAlgoCheck(
                    context, plan.description(), plan.a(), plan.b(), plan.d(), plan.d(), algorithm, result);
            return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize() <= WORKSPACE_BYTES;
        }
    }

    private static Plan describe(Product product, cublasLtMatmulAlgo_t algorithm) {
        try (PointerPointer<cublasLtMatmulDescOpaque_t> made = new PointerPointer<>(1);
                IntPointer transposed = new IntPointer(1L).put(CUBLAS_OP_T)) {
            check("cublasLtMatmulDescCreate", cublasLtMatmulDescCreate(made, CUBLAS_COMPUTE_32F, cudart.CUDA_R_32F));
            cublasLtMatmulDescOpaque_t description = made.get(cublasLtMatmulDescOpaque_t.class);
            if (product.aTransposed()) {
                set(description, CUBLASLT_MATMUL_DESC_TRANSA, transposed);
            }
            if (product.bTransposed()) {
                set(description, CUBLASLT_MATMUL_DESC_TRANSB, transposed);
            }
            return new Plan(
                    description,
                    layout(DType.BF16, product.aRows(), product.aColumns(), product.batch(), product.aStride()),
                    layout(DType.BF16, product.bRows(), product.bColumns(), product.batch(), product.bStride()),
                    layout(product.out(), product.m(), product.n(), product.batch(), product.dStride()),
                    algorithm);
        }
    }

    private static cublasLtMatrixLayoutOpaque_t layout(DType dtype, long rows, long columns, int batch, long stride) {
        try (PointerPointer<cublasLtMatrixLayoutOpaque_t> made = new PointerPointer<>(1);
                IntPointer count = new IntPointer(1L).put(batch);
                LongPointer distance = new LongPointer(1L).put(stride)) {
            int type = dtype == DType.BF16 ? cudart.CUDA_R_16BF : cudart.CUDA_R_32F;
            check("cublasLtMatrixLayoutCreate", cublasLtMatrixLayoutCreate(made, type, rows, columns, rows));
            cublasLtMatrixLayoutOpaque_t layout = made.get(cublasLtMatrixLayoutOpaque_t.class);
            if (batch > 1) {
                set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count, Integer.BYTES);
                set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, distance, Long.BYTES);
            }
            return layout;
        }
    }

    private static void set(cublasLtMatmulPreferenceOpaque_t preference, int attribute, Pointer value, long bytes) {
        check(
                "cublasLtMatmulPreferenceSetAttribute",
                cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes));
    }

    private static void set(cublasLtMatmulDescOpaque_t description, int attribute, IntPointer value) {
        check(
                "cublasLtMatmulDescSetAttribute",
                cublasLtMatmulDescSetAttribute(description, attribute, value, Integer.BYTES));
    }

    private static void set(cublasLtMatrixLayoutOpaque_t layout, int attribute, Pointer value, long bytes) {
        check("cublasLtMatrixLayoutSetAttribute", cublasLtMatrixLayoutSetAttribute(layout, attribute, value, bytes));
    }

    private static void free(Plan plan) {
        cublasLtMatrixLayoutDestroy(plan.d());
        cublasLtMatrixLayoutDestroy(plan.b());
        cublasLtMatrixLayoutDestroy(plan.a());
        cublasLtMatmulDescDestroy(plan.description());
    }

    private static void check(String call, int status) {
        if (status != CUBLAS_STATUS_SUCCESS) {
            throw new KcpException(
                    Code.RANK_FAILED,
                    call + " failed: " + cublasGetStatusString(status).getString() + " status=" + status);
        }
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            stream.device().makeCurrent();
            try (CloseStack owned = new CloseStack()) {
                owned.push(() -> check("cublasLtDestroy", cublasLtDestroy(context)));
                owned.push(workspace);
                owned.push(one);
                owned.push(zero);
                algorithms.values().forEach(owned::push);
                plans.values().forEach(plan -> owned.push(() -> free(plan)));
            }
        }
    }
}
