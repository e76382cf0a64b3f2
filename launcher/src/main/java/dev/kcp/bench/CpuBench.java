package dev.kcp.bench;

import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Times the CPU programs against the copy speed of the same run and the same number of threads. */
public final class CpuBench {
    private static final long COPY_BYTES = 256L << 20;
    private static final int COPY_RUNS = 9;

    /** A small shape's calls are over long before the JVM has compiled its loops, however many are not counted. */
    private static final long WARM_NANOS = 4_000_000_000L;

    private final int threads;
    private final int iterations;
    private final ConvOptions options;

    /**
     * A bench of the CPU.
     *
     * @param threads of the op, and of the copy that it is compared to
     * @param iterations timed calls of each shape
     * @throws IllegalArgumentException if one is below 1
     */
    public CpuBench(int threads, int iterations, ConvOptions options) {
        if (threads < 1 || iterations < 1) {
            throw new IllegalArgumentException(
                    "threads and iterations start at 1: threads=" + threads + " iterations=" + iterations);
        }
        this.threads = threads;
        this.iterations = iterations;
        this.options = options;
    }

    /** Measures every shape. */
    public BenchReport run(ConvPass pass, List<BenchShape> shapes, String commit) {
        double gigabytesPerSecond = copySpeed();
        List<BenchRow> rows = new ArrayList<>();
        try (CpuConvEngine engine = new CpuConvEngine(threads)) {
            RankClock clock = RankClock.of(engine);
            for (BenchShape shape : shapes) {
                try (OpRuns runs = new OpRuns(engine, options, pass, shape, 1)) {
                    warm(runs);
                    rows.add(runs.row(clock.millis(runs, iterations), threads, gigabytesPerSecond));
                }
            }
        }
        return new BenchReport(machine(), threads(threads), gigabytesPerSecond, commit, rows);
    }

    private void warm(OpRuns runs) {
        long until = System.nanoTime() + WARM_NANOS;
        for (int i = 0; i < Math.max(3, iterations / 2) || System.nanoTime() < until; i++) {
            runs.run();
        }
    }

    /** Gigabytes per second, read and written, of a copy by all threads: the median of several. */
    private double copySpeed() {
        try (Tensor from = Tensor.zeros(DType.F32, COPY_BYTES / 4);
                Tensor to = Tensor.zeros(DType.F32, COPY_BYTES / 4)) {
            double[] seconds = new double[COPY_RUNS];
            for (int run = -1; run < COPY_RUNS; run++) {
                long start = System.nanoTime();
                copy(from.address(), to.address());
                if (run >= 0) {
                    seconds[run] = (System.nanoTime() - start) / 1e9;
                }
            }
            return 2 * COPY_BYTES / BenchRow.median(seconds) / 1e9;
        }
    }

    private void copy(long from, long to) {
        CountDownLatch done = new CountDownLatch(threads);
        long part = COPY_BYTES / threads;
        for (int i = 0; i < threads; i++) {
            long offset = i * part;
            Thread.ofPlatform().daemon().start(() -> {
                HostMemory.copy(from + offset, to + offset, part);
                done.countDown();
            });
        }
        try {
            done.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while copying", e);
        }
    }

    /** {@code cpu N threads}, as reports call what computed. */
    public static String threads(int threads) {
        return "cpu " + threads + (threads == 1 ? " thread" : " threads");
    }

    /** The processor and its cores. */
    public static String machine() {
        String model = "unknown processor";
        try {
            model = Files.readAllLines(Path.of("/proc/cpuinfo")).stream()
                    .filter(line -> line.startsWith("model name"))
                    .map(line -> line.substring(line.indexOf(':') + 1).strip())
                    .findFirst()
                    .orElse(model);
        } catch (IOException e) {
            model = System.getProperty("os.arch");
        }
        return model + ", " + Runtime.getRuntime().availableProcessors() + " cores";
    }
}
