package dev.kcp.train.cuda;

import dev.kcp.tensor.DType;

/**
 * Matrix products of BF16 in cuBLAS's terms, {@code d[m,n] = a[m,k] b[k,n]} with columns contiguous, one or several whose
 * operands lie in equal distances. A row-major matrix is the transpose of what is meant here.
 *
 * @param aTransposed whether a lies in memory as {@code [k,m]}
 * @param bTransposed whether b lies in memory as {@code [n,k]}
 * @param out type of d: BF16 or FP32
 * @param batch how many products
 * @param aStride elements from one product's a to the next one's, as with b and d
 */
record Product(
        long m,
        long n,
        long k,
        boolean aTransposed,
        boolean bTransposed,
        DType out,
        int batch,
        long aStride,
        long bStride,
        long dStride) {
    Product {
        if (m < 1 || n < 1 || k < 1 || batch < 1) {
            throw new IllegalArgumentException(
                    "nothing to multiply: m=" + m + " n=" + n + " k=" + k + " batch=" + batch);
        }
    }

    /** One product. */
    static Product of(long m, long n, long k, boolean aTransposed, boolean bTransposed, DType out) {
        return new Product(m, n, k, aTransposed, bTransposed, out, 1, 0, 0, 0);
    }

    /** The same with another number of columns of b and d. */
    Product withColumns(long columns) {
        return new Product(m, columns, k, aTransposed, bTransposed, out, batch, aStride, bStride, dStride);
    }

    Product withBatch(int products) {
        return new Product(m, n, k, aTransposed, bTransposed, out, products, aStride, bStride, dStride);
    }

    long aRows() {
        return aTransposed ? k : m;
    }

    long aColumns() {
        return aTransposed ? m : k;
    }

    long bRows() {
        return bTransposed ? n : k;
    }

    long bColumns() {
        return bTransposed ? k : n;
    }
}
