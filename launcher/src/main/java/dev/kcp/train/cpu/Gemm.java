package dev.kcp.train.cpu;

import static org.bytedeco.openblas.global.openblas_nolapack.CblasNoTrans;
import static org.bytedeco.openblas.global.openblas_nolapack.CblasRowMajor;
import static org.bytedeco.openblas.global.openblas_nolapack.CblasTrans;

import dev.kcp.KcpException;
import dev.kcp.files.NativeFolder;
import dev.kcp.tensor.HostMemory;
import org.bytedeco.openblas.global.openblas_nolapack;

/** FP32 matrix products of dense row-major matrices by address, from OpenBLAS. One instance serves one thread. */
public final class Gemm {
    private final NativeFloats left = new NativeFloats();
    private final NativeFloats right = new NativeFloats();
    private final NativeFloats product = new NativeFloats();

    /**
     * Products by OpenBLAS.
     *
     * @param threads threads of every product in this process
     * @throws KcpException with {@code MISSING_DEVICE} if OpenBLAS cannot be loaded
     */
    public Gemm(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException("no thread to multiply on: threads=" + threads);
        }
        try {
            openblas_nolapack.blas_set_num_threads(threads);
        } catch (LinkageError failure) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "OpenBLAS cannot be loaded: cause=" + NativeFolder.reason(failure, NativeFolder.ofJavaCpp()),
                    failure);
        }
    }

    /**
     * {@code c[m,n] = a[m,k] b[k,n] + beta c}. A transposed operand lies in memory as {@code [k,m]} or {@code [n,k]}.
     *
     * @param beta 0 to overwrite c, which may then hold anything; 1 to add to it
     */
    public void multiply(
            int m, int n, int k, long a, boolean aTransposed, long b, boolean bTransposed, float beta, long c) {
        if (m == 0 || n == 0) {
            return;
        }
        if (k == 0) {
            if (beta == 0) {
                HostMemory.zero(c, (long) m * n * Float.BYTES);
            }
            return;
        }
        openblas_nolapack.cblas_sgemm(
                CblasRowMajor,
                aTransposed ? CblasTrans : CblasNoTrans,
                bTransposed ? CblasTrans : CblasNoTrans,
                m,
                n,
                k,
                1,
                left.at(a),
                aTransposed ? m : k,
                right.at(b),
                bTransposed ? k : n,
                beta,
                product.at(c),
                n);
    }
}
