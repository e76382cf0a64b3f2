package dev.kcp.conv.cpu;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** Time per call of the CPU programs on one thread; benchmarks/README.md says how to start it. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(
        value = 1,
        jvmArgsAppend = {"--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"})
@Warmup(iterations = 4, time = 1)
@Measurement(iterations = 5, time = 1)
public class ConvBenchmark {
    @Param({"2048"})
    private int tokens;

    @Param({"16", "1024"})
    private int channels;

    @Param({"1", "256"})
    private int documents;

    @Param({"BF16", "FP32"})
    private SiluGradPolicy policy;

    private CpuConvEngine engine;
    private CausalConv1d conv;
    private ConvCase in;
    private Tensor y;
    private Gradients gradients;

    @Setup(Level.Trial)
    public void open() {
        int[] lengths = new int[documents];
        Arrays.fill(lengths, tokens / documents);
        engine = new CpuConvEngine(1);
        conv = new CausalConv1d(engine, ConvOptions.DEFAULT.withPolicy(policy));
        in = ConvCase.random(1, channels, lengths);
        y = Tensor.zeros(DType.BF16, in.rows(), channels);
        gradients = Gradients.allocate(in.x(), in.weight(), null);
    }

    @TearDown(Level.Trial)
    public void close() {
        y.close();
        gradients.close();
        in.close();
        engine.close();
    }

    @Benchmark
    public Tensor forward() {
        return conv.forward(in.x(), in.weight(), null, in.offsets(), y);
    }

    @Benchmark
    public Gradients backward() {
        return conv.backward(in.x(), in.weight(), null, in.offsets(), in.dy(), gradients);
    }
}
