package dev.kcp.bench;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.conv.cuda.CudaEvent;
import dev.kcp.conv.cuda.CudaStream;
import dev.kcp.tensor.BFloat16;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

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
    private static final int FORWARD_BYTES = 4;
    private static final int BACKWARD_BYTES = 6;

    private final int ordinal;
    private final int iterations;
    private final ConvOptions options;

    /** Tensors of one call. */
    private record Buffers(Tensor x, Tensor dy, Tensor out) {}

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

    /**
     * Measures every shape.
     *
     * @param backward both launches of backward, dx and sums, rather than forward
     */
    public BenchReport run(boolean backward, List<BenchShape> shapes, String commit) {
        try (CudaConvEngine engine = CudaConvEngine.open(ordinal)) {
            warmHost(engine, backward);
            double gigabytesPerSecond = copySpeed(engine.stream());
            List<BenchRow> rows = new ArrayList<>();
            for (BenchShape shape : shapes) {
                rows.add(measure(engine, backward, shape, gigabytesPerSecond));
            }
            String name = engine.stream().device().name();
            return new BenchReport(name, "cuda " + name, gigabytesPerSecond, commit, rows);
        }
    }

    /**
     * Microseconds that the host spends in one call, its work on the device left behind: the median of many calls on a
     * shape small enough that the device keeps up.
     */
    public double hostMicroseconds(boolean backward) {
        try (CudaConvEngine engine = CudaConvEngine.open(ordinal)) {
            List<Tensor> owned = new ArrayList<>();
            try {
                Runnable body = body(engine, backward, SMALL, owned, 1);
                double[] times = new double[HOST_CALLS];
                for (int i = -HOST_CALLS; i < HOST_CALLS; i++) {
                    if ((i & 63) == 0) {
                        engine.stream().synchronize();
                    }
                    long start = System.nanoTime();
                    body.run();
                    if (i >= 0) {
                        times[i] = (System.nanoTime() - start) / 1e3;
                    }
                }
                return BenchRow.median(times);
            } finally {
                owned.forEach(Tensor::close);
            }
        }
    }

    /** Small calls until the host's code is compiled, so that the device never waits for it. */
    private void warmHost(CudaConvEngine engine, boolean backward) {
        List<Tensor> owned = new ArrayList<>();
        try {
            Runnable body = body(engine, backward, SMALL, owned, 1);
            for (int i = 0; i < WARM_CALLS; i += iterations) {
                times(engine.stream(), body);
            }
        } finally {
            owned.forEach(Tensor::close);
        }
    }

    private BenchRow measure(CudaConvEngine engine, boolean backward, BenchShape shape, double gigabytesPerSecond) {
        long elements = (long) shape.tokens() * shape.channels();
        int sets = Math.clamp(ROTATION_BYTES / (elements * DType.BF16.bytes()), 2, MOST_SETS);
        List<Tensor> owned = new ArrayList<>();
        try {
            Runnable body = body(engine, backward, shape, owned, sets);
            double[] times = times(engine.stream(), body);
            long bytes = elements * (backward ? BACKWARD_BYTES : FORWARD_BYTES);
            Tensor x = owned.getFirst();
            List<String> programs = engine.programs(new ConvEngine.Operands(x, x, null, null), options);
            return new BenchRow(
                    backward ? "backward" : "forward",
                    shape.tokens(),
                    shape.channels(),
                    shape.documents(),
                    programs.get(backward ? 1 : 0),
                    0,
                    iterations,
                    BenchRow.median(times),
                    Arrays.stream(times).min().orElseThrow(),
                    bytes,
                    bytes / gigabytesPerSecond / 1e6);
        } finally {
            owned.forEach(Tensor::close);
        }
    }

    /** One call after another on the sets in turn; the first tensor of {@code owned} is an x. */
    private Runnable body(CudaConvEngine engine, boolean backward, BenchShape shape, List<Tensor> owned, int sets) {
        CudaStream stream = engine.stream();
        Random random = new Random(7);
        List<Buffers> buffers = new ArrayList<>();
        for (int i = 0; i < sets; i++) {
            Tensor x = normal(stream, random, shape);
            owned.add(x);
            Tensor dy = backward ? normal(stream, random, shape) : x;
            owned.add(dy);
            Tensor out = stream.zeros(DType.BF16, shape.tokens(), shape.channels());
            owned.add(out);
            buffers.add(new Buffers(x, dy, out));
        }
        Tensor weight = weight(stream, random, shape.channels());
        owned.add(weight);
        Tensor dweight = stream.zeros(DType.F32, shape.channels(), 4);
        owned.add(dweight);
        Tensor cuSeqlens = offsets(stream, shape.offsets());
        owned.add(cuSeqlens);
        CausalConv1d conv = new CausalConv1d(engine, options);
        int[] next = {0};
        return () -> {
            Buffers set = buffers.get(next[0]++ % sets);
            if (backward) {
                conv.backward(set.x(), weight, null, cuSeqlens, set.dy(), new Gradients(set.out(), dweight, null));
            } else {
                conv.forward(set.x(), weight, null, cuSeqlens, set.out());
            }
        };
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

    /** Normal numbers, drawn for the first rows and repeated below them. */
    private static Tensor normal(CudaStream stream, Random random, BenchShape shape) {
        int drawn = Math.min(shape.tokens(), 61);
        Tensor all = stream.uninitialized(DType.BF16, shape.tokens(), shape.channels());
        try (Tensor host = Tensor.zeros(DType.BF16, drawn, shape.channels())) {
            for (long i = 0; i < host.elements(); i++) {
                short bits = BFloat16.fromFloat((float) random.nextGaussian());
                host.segment().setAtIndex(ValueLayout.JAVA_SHORT, i, bits);
            }
            try (Tensor block = stream.upload(host)) {
                for (int row = 0; row < shape.tokens(); row += drawn) {
                    long rows = Math.min(drawn, shape.tokens() - row);
                    stream.copy(block.address(), all.rowAddress(row), rows * all.pitchBytes());
                }
                stream.synchronize();
            }
        }
        return all;
    }

    private static Tensor weight(CudaStream stream, Random random, int channels) {
        try (Tensor host = Tensor.zeros(DType.F32, channels, 4)) {
            for (long i = 0; i < host.elements(); i++) {
                host.segment().setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) random.nextGaussian() / 2);
            }
            return stream.upload(host);
        }
    }

    private static Tensor offsets(CudaStream stream, int[] offsets) {
        try (Tensor host = Tensor.zeros(DType.I32, offsets.length)) {
            host.segment().copyFrom(MemorySegment.ofArray(offsets));
            return stream.upload(host);
        }
    }
}
