package dev.kcp.bench;

import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * Times the GPU programs between events on their stream, in the order a training step would call them, against the copy
 * speed of the same run. Tensors rotate, so that none is found in the cache.
 */
public final class CudaBench {
    private static final long COPY_BYTES = 1L << 30;
    private static final int COPY_RUNS = 15;
    /** Tensors of one kind together are at least this large: several times the cache. */
    private static final long ROTATION_BYTES = 400L << 20;

    private static final int MOST_SETS = 6;
    private static final int HOST_CALLS = 20_000;
    private static final int WARM_CALLS = 10_000;
    private static final BenchShape SMALL = new BenchShape(64, 128, 1);

    private final int ordinal;
    private final int iterations;
    private final ConvOptions options;

    /**
     * A bench of one GPU.
     *
     * @param ordinal the device's number among the visible ones
     * @param iterations timed calls of each shape
     * @throws IllegalArgumentException if iterations is below 1
     */
    public CudaBench(int ordinal, int iterations, ConvOptions options) {
        if (iterations < 1) {
            throw new IllegalArgumentException("iterations start at 1: iterations=" + iterations);
        }
        this.ordinal = ordinal;
        this.iterations = iterations;
        this.options = options;
    }

    /** Measures every shape; backward is both its launches. */
    public BenchReport run(ConvPass pass, List<BenchShape> shapes, String commit) {
        try (CudaConvEngine engine = CudaConvEngine.open(ordinal)) {
            warmHost(engine, pass);
            double gigabytesPerSecond = copySpeed(engine.stream());
            List<BenchRow> rows = new ArrayList<>();
            for (BenchShape shape : shapes) {
                try (OpRuns runs = new OpRuns(engine, options, pass, shape, sets(shape))) {
                    rows.add(runs.row(times(engine.stream(), runs), 0, gigabytesPerSecond));
                }
            }
            String name = engine.stream().device().name();
            return new BenchReport(name, "cuda " + name, gigabytesPerSecond, commit, rows);
        }
    }

    private static int sets(BenchShape shape) {
        long bytes = (long) shape.tokens() * shape.channels() * DType.BF16.bytes();
        return Math.clamp(ROTATION_BYTES / bytes, 2, MOST_SETS);
    }

    /**
     * Microseconds that the host spends in one call, its work on the device left behind: the median of many calls on a
     * shape small enough that the device keeps up.
     */
    public double hostMicroseconds(ConvPass pass) {
        try (CudaConvEngine engine = CudaConvEngine.open(ordinal);
                OpRuns runs = new OpRuns(engine, options, pass, SMALL, 1)) {
            double[] times = new double[HOST_CALLS];
            for (int i = -HOST_CALLS; i < HOST_CALLS; i++) {
                if ((i & 63) == 0) {
                    engine.stream().synchronize();
                }
                long start = System.nanoTime();
                runs.run();
                if (i >= 0) {
                    times[i] = (System.nanoTime() - start) / 1e3;
                }
            }
            return BenchRow.median(times);
        }
    }

    /** Small calls until the host's code is compiled, so that the device never waits for it. */
    private void warmHost(CudaConvEngine engine, ConvPass pass) {
        try (OpRuns runs = new OpRuns(engine, options, pass, SMALL, 1)) {
            for (int i = 0; i < WARM_CALLS; i += iterations) {
                times(engine.stream(), runs);
            }
        }
    }

    private double[] times(CudaStream stream, Runnable body) {
        for (int i = 0; i < Math.max(3, iterations / 2); i++) {
            body.run();
        }
        CudaEvent[] begins = new CudaEvent[iterations];
        CudaEvent[] ends = new CudaEvent[iterations];
        for (int i = 0; i < iterations; i++) {
            begins[i] = new CudaEvent(stream.device());
            ends[i] = new CudaEvent(stream.device());
        }
        for (int i = 0; i < iterations; i++) {
            begins[i].record(stream);
            body.run();
            ends[i].record(stream);
        }
        stream.synchronize();
        double[] millis = new double[iterations];
        for (int i = 0; i < iterations; i++) {
            millis[i] = ends[i].millisSince(begins[i]);
            begins[i].close();
            ends[i].close();
        }
        return millis;
    }

    /** Gigabytes per second, read and written, of a copy from device memory to device memory: the median of several. */
    private static double copySpeed(CudaStream stream) {
        try (Tensor from = stream.zeros(DType.F32, COPY_BYTES / 4);
                Tensor to = stream.zeros(DType.F32, COPY_BYTES / 4);
                CudaEvent begin = new CudaEvent(stream.device());
                CudaEvent end = new CudaEvent(stream.device())) {
            double[] seconds = new double[COPY_RUNS];
            for (int run = -1; run < COPY_RUNS; run++) {
                begin.record(stream);
                stream.copy(from.address(), to.address(), COPY_BYTES);
                end.record(stream);
                stream.synchronize();
                if (run >= 0) {
                    seconds[run] = end.millisSince(begin) / 1e3;
                }
            }
            return 2 * COPY_BYTES / BenchRow.median(seconds) / 1e9;
        }
    }
}
