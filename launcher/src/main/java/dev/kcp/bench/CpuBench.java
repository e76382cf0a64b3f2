package dev.kcp.bench;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;

/** Times the CPU programs against the copy speed of the same run and the same number of threads. */
public final class CpuBench {
    private static final long COPY_BYTES = 256L << 20;
    private static final int COPY_RUNS = 9;

    /** A small shape's calls are over long before the JVM has compiled its loops, however many are not counted. */
    private static final long WARM_NANOS = 1_500_000_000;

    private static final int FORWARD_BYTES = 4;
    private static final int BACKWARD_BYTES = 6;

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

    /**
     * Measures every shape.
     *
     * @param backward the backward op, dx and sums, rather than forward
     */
    public BenchReport run(boolean backward, List<BenchShape> shapes, String commit) {
        double gigabytesPerSecond = copySpeed();
        List<BenchRow> rows = new ArrayList<>();
        try (CpuConvEngine engine = new CpuConvEngine(threads)) {
            for (BenchShape shape : shapes) {
                rows.add(measure(engine, backward, shape, gigabytesPerSecond));
            }
        }
        return new BenchReport(machine(), threads(threads), gigabytesPerSecond, commit, rows);
    }

    private BenchRow measure(CpuConvEngine engine, boolean backward, BenchShape shape, double gigabytesPerSecond) {
        Random random = new Random(7);
        int[] offsets = shape.offsets();
        try (Tensor x = normal(random, shape.tokens(), shape.channels());
                Tensor dy = normal(random, shape.tokens(), shape.channels());
                Tensor y = Tensor.zeros(DType.BF16, shape.tokens(), shape.channels());
                Tensor weight = Tensor.zeros(DType.F32, shape.channels(), 4);
                Tensor cuSeqlens = Tensor.zeros(DType.I32, offsets.length);
                Gradients out = Gradients.allocate(x, weight, null)) {
            cuSeqlens.segment().copyFrom(java.lang.foreign.MemorySegment.ofArray(offsets));
            for (long i = 0; i < weight.elements(); i++) {
                weight.segment().setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) random.nextGaussian() / 2);
            }
            CausalConv1d conv = new CausalConv1d(engine, options);
            Runnable body = backward
                    ? () -> conv.backward(x, weight, null, cuSeqlens, dy, out)
                    : () -> conv.forward(x, weight, null, cuSeqlens, y);
            double[] times = times(body);
            long bytes = x.elements() * (backward ? BACKWARD_BYTES : FORWARD_BYTES);
            List<String> programs = engine.programs(new ConvEngine.Operands(x, weight, null, null), options);
            return new BenchRow(
                    backward ? "backward" : "forward",
                    shape.tokens(),
                    shape.channels(),
                    shape.documents(),
                    programs.get(backward ? 1 : 0),
                    threads,
                    iterations,
                    BenchRow.median(times),
                    java.util.Arrays.stream(times).min().orElseThrow(),
                    bytes,
                    bytes / gigabytesPerSecond / 1e6);
        }
    }

    private double[] times(Runnable body) {
        long warmUntil = System.nanoTime() + WARM_NANOS;
        for (int i = 0; i < Math.max(3, iterations / 2) || System.nanoTime() < warmUntil; i++) {
            body.run();
        }
        double[] times = new double[iterations];
        for (int i = 0; i < iterations; i++) {
            long start = System.nanoTime();
            body.run();
            times[i] = (System.nanoTime() - start) / 1e6;
        }
        return times;
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

    private static Tensor normal(Random random, long rows, long columns) {
        Tensor tensor = Tensor.zeros(DType.BF16, rows, columns);
        short[] numbers = new short[1 << 16];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = BFloat16.fromFloat((float) random.nextGaussian());
        }
        for (long i = 0; i < tensor.elements(); i++) {
            tensor.segment().setAtIndex(ValueLayout.JAVA_SHORT, i, numbers[(int) (i * 31 % numbers.length)]);
        }
        return tensor;
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
