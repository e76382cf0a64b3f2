package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.ShardTables.Span;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every program of a shard with history, owed rows and broken leaves: the GPU's bits are the CPU's. */
@NeedsGpu
class CudaShardTest {
    private static CudaConvEngine cuda;
    private static CpuConvEngine cpu;

    @BeforeAll
    static void open() {
        cuda = CudaConvEngine.open(0);
        cpu = new CpuConvEngine(4);
    }

    @AfterAll
    static void close() {
        cuda.close();
        cpu.close();
    }

    static Stream<Integer> seeds() {
        return Stream.iterate(0, seed -> seed + 1).limit(60);
    }

    /** One rank's fragments of a random batch, some in another order than their tokens'. */
    static ShardTables tables(Random random) {
        List<Span> spans = new ArrayList<>();
        int packed = 0;
        int alignment = random.nextBoolean() ? 64 : 1;
        int documents = 1 + random.nextInt(12);
        for (int d = 0; d < documents; d++) {
            int length = random.nextInt(3) == 0 ? random.nextInt(6) : random.nextInt(900);
            int begin = packed;
            int end = packed + length;
            for (int at = begin; at < end; ) {
                int next = Math.min(end, (at + 1 + random.nextInt(400)) / alignment * alignment);
                next = next <= at ? Math.min(end, at + alignment) : next;
                if (random.nextInt(4) > 0) {
                    spans.add(new Span(at, next - at, begin, end));
                }
                at = next;
            }
            packed = end;
        }
        if (random.nextBoolean()) {
            java.util.Collections.shuffle(spans, random);
        }
        int[] history = new int[3 * spans.size()];
        int[] owed = new int[3 * spans.size()];
        int pool = 0;
        for (int f = 0; f < spans.size(); f++) {
            Span span = spans.get(f);
            for (int j = 0; j < 3; j++) {
                boolean before = span.length() > 0 && span.packedBegin() - j - 1 >= span.documentBegin();
                boolean after = span.length() > 0 && span.packedBegin() + span.length() + j < span.documentEnd();
                history[3 * f + j] = before ? pool++ % 50 : -1;
                owed[3 * f + j] = after ? pool++ % 50 : -1;
            }
        }
        return ShardTables.of(packed, spans, history, owed);
    }

    @ParameterizedTest
    @MethodSource("seeds")
    void programsHaveTheBitsOfTheCpu(int seed) {
        Random random = new Random(seed);
        ShardTables tables = tables(random);
        int slack = random.nextInt(3);
        int channels = new int[] {8, 128, 200}[random.nextInt(3)];
        try (Case in = new Case(random, tables.rows() + slack, channels, random.nextBoolean())) {
            for (SiluGradPolicy policy : SiluGradPolicy.values()) {
                ConvOptions options = new ConvOptions(policy, ConvMath.PORTABLE, true);
                List<Tensor> expected = run(cpu, tables, in, options, Function.identity());
                List<Tensor> got = run(cuda, tables, in, options, cuda.stream()::upload);
                String[] names = {"y", "head", "dx", "tail", "sums"};
                assertThat(got).hasSameSizeAs(expected);
                for (int i = 0; i < names.length; i++) {
                    try (Tensor host = cuda.stream().download(got.get(i))) {
                        Tolerance.assertSameBits(names[i], host, expected.get(i));
                    }
                }
                Stream.concat(expected.stream(), got.stream()).forEach(Tensor::close);
            }
        }
    }

    record Case(Tensor x, Tensor dy, Tensor weight, Tensor bias, Tensor history, Tensor received)
            implements AutoCloseable {
        Case(Random random, int rows, int channels, boolean withBias) {
            this(
                    ConvCase.normal(random, 1, DType.BF16, rows, channels),
                    ConvCase.normal(random, 1, DType.BF16, rows, channels),
                    ConvCase.normal(random, 0.5, DType.F32, channels, 4),
                    withBias ? ConvCase.normal(random, 0.5, DType.BF16, channels) : null,
                    ConvCase.normal(random, 1, DType.BF16, 50, channels),
                    ConvCase.normal(random, 1, DType.F32, 50, channels));
        }

        @Override
        public void close() {
            for (Tensor tensor : Arrays.asList(x, dy, weight, bias, history, received)) {
                if (tensor != null) {
                    tensor.close();
                }
            }
        }
    }

    /** y, head, dx, tail and sums of the shard, on the engine's device. */
    static List<Tensor> run(
            ConvEngine engine, ShardTables tables, Case in, ConvOptions options, Function<Tensor, Tensor> place) {
        Tensor x = place.apply(in.x());
        Tensor dy = place.apply(in.dy());
        Tensor weight = place.apply(in.weight());
        Tensor bias = in.bias() == null ? null : place.apply(in.bias());
        Tensor history = place.apply(in.history());
        Tensor received = place.apply(in.received());
        Operands operands = new Operands(x, weight, bias, history);
        long channels = x.columns();
        Tensor y = engine.allocate(DType.BF16, x.rows(), channels);
        Tensor dx = engine.allocate(DType.BF16, x.rows(), channels);
        Tensor head = engine.allocate(DType.F32, tables.headRows(), channels);
        Tensor tail = engine.allocate(DType.F32, tables.tailRows(), channels);
        Tensor sums = engine.allocate(options.policy().sumType(), tables.nodeCount(), operands.sumPlanes(), channels);
        try (Shard shard = engine.shard(tables)) {
            engine.forward(shard, operands, options, y);
            engine.seam(shard, operands, options, y, 0);
            engine.head(shard, operands, options, dy, head);
            engine.main(shard, operands, options, dy, dx, tail, sums);
            engine.owed(shard, operands, tail, received, dx);
        }
        for (Tensor tensor : Arrays.asList(x, dy, weight, bias, history, received)) {
            if (tensor != null && tensor.device().kind() == Device.Kind.CUDA) {
                tensor.close();
            }
        }
        return List.of(y, head, dx, tail, sums);
    }
}
