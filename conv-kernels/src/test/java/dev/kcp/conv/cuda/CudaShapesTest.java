package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Sizes and layouts at the edges: nothing, slack, pitches, very many documents, channels and elements; graphs. */
@NeedsGpu
class CudaShapesTest {
    private static final ConvOptions PORTABLE = new ConvOptions(SiluGradPolicy.BF16, ConvMath.PORTABLE, false);

    private static CudaConvEngine cuda;
    private static CpuConvEngine cpu;

    @BeforeAll
    static void open() {
        cuda = CudaConvEngine.open(0);
        cpu = new CpuConvEngine(8);
    }

    @AfterAll
    static void close() {
        cuda.close();
        cpu.close();
    }

    private static void assertCpuBits(ConvCase in) {
        CausalConv1d oracle = new CausalConv1d(cpu, PORTABLE);
        try (OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(PORTABLE);
                Tensor y = oracle.forward(in.x(), in.weight(), in.bias(), in.offsets(), null);
                Gradients expected = Gradients.allocate(in.x(), in.weight(), in.bias())) {
            oracle.backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), expected);
            Tolerance.assertSameBits("y", gpu.host(gpu.y), y);
            Tolerance.assertSameBits("dx", gpu.host(gpu.gradients.dx()), expected.dx());
            Tolerance.assertSameBits("dweight", gpu.host(gpu.gradients.dweight()), expected.dweight());
        }
    }

    @Test
    void seventyThousandDocuments() {
        Random random = new Random(2);
        int[] lengths = random.ints(70_000, 0, 4).toArray();
        try (ConvCase in = ConvCase.random(2, 8, lengths)) {
            assertCpuBits(in);
        }
    }

    @Test
    void sixtyFiveThousandChannels() {
        try (ConvCase in = ConvCase.random(3, 65_536, 5, 3, 9)) {
            assertCpuBits(in);
        }
        for (int channels : new int[] {65_544, 70_000}) {
            try (ConvCase in = ConvCase.random(3, channels, 7)) {
                assertCpuBits(in);
            }
        }
    }

    @Test
    void everyLengthAroundAChunkAndALeaf() {
        for (int length : new int[] {
            1, 2, 3, 4, 5, 7, 8, 9, 61, 62, 63, 64, 65, 66, 67, 127, 128, 129, 130, 131, 132, 510, 511, 512, 513, 514,
            515, 516, 1020, 1021, 1022, 1023, 1024, 1025, 1026, 1027, 1028, 1029, 1030, 1031, 1032, 2046, 2047, 2048,
            2049, 2050, 2051, 2052
        }) {
            try (ConvCase in = ConvCase.random(length, 16, length)) {
                assertCpuBits(in);
            }
        }
    }

    @Test
    void noTokens() {
        for (int[] lengths : new int[][] {{}, {0}, {0, 0, 0}}) {
            try (ConvCase in = ConvCase.random(1, 8, lengths);
                    OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(ConvOptions.DEFAULT);
                    Tensor zeros = Tensor.zeros(DType.F32, 8, 4)) {
                Tolerance.assertSameBits("dweight", gpu.host(gpu.gradients.dweight()), zeros);
            }
        }
    }

    @Test
    void slackRowsBecomeZerosAndAddNothing() {
        for (int[] lengths : new int[][] {{70, 30}, {0}, {}, {513}}) {
            try (ConvCase all = ConvCase.random(4, 24, 700);
                    Tensor offsets = offsets(lengths)) {
                int tokens = Arrays.stream(lengths).sum();
                ConvCase in = new ConvCase(all.cuSeqlens(), all.x(), all.weight(), null, offsets, all.dy());
                ConvOptions options = new ConvOptions(SiluGradPolicy.FP32, ConvMath.PORTABLE, true);
                CausalConv1d oracle = new CausalConv1d(cpu, options);
                try (OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(options);
                        Tensor y = oracle.forward(in.x(), in.weight(), null, offsets, null);
                        Gradients expected = Gradients.allocate(in.x(), in.weight(), null)) {
                    oracle.backward(in.x(), in.weight(), null, offsets, in.dy(), expected);
                    Tolerance.assertSameBits("y of " + tokens, gpu.host(gpu.y), y);
                    Tolerance.assertSameBits("dx of " + tokens, gpu.host(gpu.gradients.dx()), expected.dx());
                    Tolerance.assertSameBits(
                            "dweight of " + tokens, gpu.host(gpu.gradients.dweight()), expected.dweight());
                }
            }
        }
    }

    private static Tensor offsets(int... lengths) {
        int[] offsets = new int[lengths.length + 1];
        for (int d = 0; d < lengths.length; d++) {
            offsets[d + 1] = offsets[d] + lengths[d];
        }
        return ConvCase.ints(offsets);
    }

    @Test
    void gradientsThatNobodyAsksForAndANullDy() {
        try (ConvCase in = ConvCase.random(6, 136, 90, 200);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(ConvOptions.DEFAULT)) {
            CausalConv1d conv = new CausalConv1d(cuda, ConvOptions.DEFAULT);
            Tensor dx = gpu.host(gpu.gradients.dx());
            Tensor dweight = gpu.host(gpu.gradients.dweight());
            gpu.poisonResults();
            conv.backward(gpu.x, gpu.weight, null, gpu.offsets, gpu.dy, new Gradients(gpu.gradients.dx(), null, null));
            Tolerance.assertSameBits("dx", gpu.host(gpu.gradients.dx()), dx);
            conv.backward(
                    gpu.x, gpu.weight, null, gpu.offsets, gpu.dy, new Gradients(null, gpu.gradients.dweight(), null));
            Tolerance.assertSameBits("dweight", gpu.host(gpu.gradients.dweight()), dweight);
            conv.backward(gpu.x, gpu.weight, null, gpu.offsets, null, gpu.gradients);
            Tensor zero = gpu.host(gpu.gradients.dx());
            for (int c = 0; c < in.channels(); c++) {
                assertThat(ConvCase.get(zero, 100, c)).isZero();
            }
        }
    }

    /** Slices of a wider tensor, with canaries on both sides of every row and exact-size parameters. */
    @Test
    void pitchedRowsLeaveTheirNeighboursAlone() {
        int channels = 24;
        int pitch = 64;
        try (ConvCase in = ConvCase.random(7, channels, 33, 100);
                OnDevice dense = new OnDevice(cuda, in, DType.F32).run(ConvOptions.DEFAULT);
                Memory wide = cuda.stream().allocate((long) in.rows() * pitch * 2 * 4)) {
            CudaStream stream = cuda.stream();
            stream.fill(wide.address(), (byte) 0x5A, wide.bytes());
            Tensor[] slices = new Tensor[4];
            for (int i = 0; i < slices.length; i++) {
                slices[i] = Tensor.pitched(
                        wide, (long) i * in.rows() * pitch * 2 + 16, DType.BF16, in.rows(), channels, pitch);
            }
            for (int row = 0; row < in.rows(); row++) {
                stream.copy(dense.x.rowAddress(row), slices[0].rowAddress(row), channels * 2L);
                stream.copy(dense.dy.rowAddress(row), slices[1].rowAddress(row), channels * 2L);
            }
            CausalConv1d conv = new CausalConv1d(cuda, ConvOptions.DEFAULT);
            conv.forward(slices[0], dense.weight, null, dense.offsets, slices[2]);
            conv.backward(
                    slices[0],
                    dense.weight,
                    null,
                    dense.offsets,
                    slices[1],
                    new Gradients(slices[3], dense.gradients.dweight(), null));
            try (Tensor all = stream.download(Tensor.over(wide, DType.BF16, 4L * in.rows(), pitch));
                    Tensor y = stream.download(dense.y);
                    Tensor dx = stream.download(dense.gradients.dx())) {
                for (int row = 0; row < in.rows(); row++) {
                    for (int c = 0; c < pitch; c++) {
                        for (int which = 2; which < 4; which++) {
                            boolean inside = c >= 8 && c < 8 + channels;
                            short got = bits(all, (long) (which * in.rows() + row) * pitch + c);
                            short want =
                                    inside ? bits(which == 2 ? y : dx, (long) row * channels + c - 8) : (short) 0x5A5A;
                            assertThat(got)
                                    .as("tensor %d row %d column %d", which, row, c)
                                    .isEqualTo(want);
                        }
                    }
                }
            }
        }
    }

    private static short bits(Tensor tensor, long index) {
        return tensor.segment().getAtIndex(ValueLayout.JAVA_SHORT, index);
    }

    /**
     * 4.3e9 elements that repeat every 512 rows: all rows of y and dx, and dweight, follow from runs of the first and the
     * last few rows alone.
     */
    @Test
    void moreThanFourBillionElements() {
        int channels = 8192;
        int rows = 524_288 + 1024;
        CudaStream stream = cuda.stream();
        try (Tensor block = ConvCase.normal(new Random(8), 1, DType.BF16, 512, channels);
                Tensor weight = ConvCase.normal(new Random(9), 0.5, DType.F32, channels, 4);
                Tensor blockOnDevice = stream.upload(block);
                Tensor weightOnDevice = stream.upload(weight);
                Tensor x = stream.uninitialized(DType.BF16, rows, channels);
                Tensor out = stream.uninitialized(DType.BF16, rows, channels);
                Tensor offsets = ConvCase.ints(0, rows - 700, rows);
                Tensor offsetsOnDevice = stream.upload(offsets);
                Tensor dweight = stream.zeros(DType.F32, channels, 4)) {
            assertThat(x.elements()).isGreaterThan(1L << 32);
            for (int row = 0; row < rows; row += 512) {
                stream.copy(blockOnDevice.address(), x.rowAddress(row), 512L * channels * 2);
            }
            CausalConv1d conv = new CausalConv1d(cuda, ConvOptions.DEFAULT);
            try (Tensor shortOffsets = ConvCase.ints(0, 2048 - 700, 2048);
                    Tensor shortOnDevice = stream.upload(shortOffsets);
                    Tensor last = x.rows(rows - 2048, rows);
                    Tensor first = x.rows(0, 1024);
                    Tensor firstOffsets = ConvCase.ints(0, 1024);
                    Tensor firstOnDevice = stream.upload(firstOffsets);
                    Tensor blockOffsets = ConvCase.ints(0, 512);
                    Tensor blockOnDeviceOffsets = stream.upload(blockOffsets);
                    Tensor start = stream.uninitialized(DType.BF16, 1024, channels);
                    Tensor ofTwo = stream.zeros(DType.F32, channels, 4);
                    Tensor ofOne = stream.zeros(DType.F32, channels, 4);
                    Tensor ofLast = stream.zeros(DType.F32, channels, 4);
                    Tensor alone = stream.uninitialized(DType.BF16, 2048, channels)) {
                conv.forward(x, weightOnDevice, null, offsetsOnDevice, out);
                conv.forward(last, weightOnDevice, null, shortOnDevice, alone);
                assertSameRows(stream, "y", out.rows(rows - 1024, rows), alone.rows(1024, 2048));
                conv.forward(first, weightOnDevice, null, firstOnDevice, start);
                assertRepeats(stream, "y", out, start, rows - 1024);
                stream.fill(out.address(), (byte) 0xFF, out.elements() * 2);
                conv.backward(x, weightOnDevice, null, offsetsOnDevice, x, new Gradients(out, dweight, null));
                conv.backward(last, weightOnDevice, null, shortOnDevice, last, new Gradients(alone, ofLast, null));
                assertSameRows(stream, "dx", out.rows(rows - 1024, rows), alone.rows(1024, 2048));
                conv.backward(first, weightOnDevice, null, firstOnDevice, first, new Gradients(start, ofTwo, null));
                // The last three rows of a document end otherwise; the block after them shows them as they repeat.
                stream.copy(alone.rowAddress(509), start.rowAddress(1021), 3L * channels * 2);
                assertRepeats(stream, "dx", out, start, rows - 1024);
                Tensor one = x.rows(0, 512);
                conv.backward(one, weightOnDevice, null, blockOnDeviceOffsets, one, new Gradients(null, ofOne, null));
                assertSumOfBlocks(stream, dweight, ofLast, ofTwo, ofOne, rows / 512 - 4);
            }
        }
    }

    /** Rows up to the end: the first block, and the second over and over. */
    private static void assertRepeats(CudaStream stream, String name, Tensor got, Tensor start, int end) {
        try (Tensor first = stream.download(start.rows(0, 512));
                Tensor later = stream.download(start.rows(512, 1024))) {
            for (int row = 0; row < end; row += 512) {
                try (Tensor block = stream.download(got.rows(row, row + 512))) {
                    assertThat(block.segment().mismatch((row == 0 ? first : later).segment()))
                            .as("%s of rows from %d on", name, row)
                            .isEqualTo(-1);
                }
            }
        }
    }

    /** The last rows alone, and so many blocks more; what a block adds is two of them less one. */
    private static void assertSumOfBlocks(
            CudaStream stream, Tensor dweight, Tensor ofLast, Tensor ofTwo, Tensor ofOne, int blocks) {
        try (Tensor got = stream.download(dweight);
                Tensor last = stream.download(ofLast);
                Tensor two = stream.download(ofTwo);
                Tensor one = stream.download(ofOne)) {
            double most = 0;
            double furthest = 0;
            for (int c = 0; c < got.rows(); c++) {
                for (int k = 0; k < 4; k++) {
                    double block = ConvCase.get(two, c, k) - ConvCase.get(one, c, k);
                    double want = ConvCase.get(last, c, k) + blocks * block;
                    most = Math.max(most, Math.abs(want));
                    furthest = Math.max(furthest, Math.abs(ConvCase.get(got, c, k) - want));
                }
            }
            assertThat(furthest)
                    .as("distance of dweight, of values up to %s", most)
                    .isLessThan(1e-5 * most);
        }
    }

    private static void assertSameRows(CudaStream stream, String name, Tensor got, Tensor want) {
        try (Tensor a = stream.download(got);
                Tensor b = stream.download(want)) {
            Tolerance.assertSameBits(name, a, b);
        }
    }

    @Test
    void programsAreNamedAsTheyRunOnABatchAndOnAShard() {
        try (ConvCase in = ConvCase.random(1, 64, DType.F32, null, 100);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32)) {
            ConvEngine.Operands operands = new ConvEngine.Operands(gpu.x, gpu.weight, null, null);
            assertThat(cuda.programs(operands, ConvOptions.DEFAULT, false))
                    .containsExactly("cuda-forward-main-fast-batch-16", "cuda-backward-main-fast-bf16-batch");
            assertThat(cuda.programs(operands, ConvOptions.DEFAULT, true))
                    .containsExactly("cuda-forward-main-fast-tables-16", "cuda-backward-main-fast-bf16-tables");
        }
    }

    @Test
    void graphReplaysWithOtherOffsets() {
        try (ConvCase first = ConvCase.random(11, 64, DType.F32, DType.F32, 100, 200, 300);
                Tensor other = ConvCase.ints(0, 1, 599, 600);
                OnDevice gpu = new OnDevice(cuda, first, DType.F32);
                OnDevice eager = new OnDevice(cuda, first, DType.F32)) {
            cuda.prepare(first.rows(), first.channels());
            long free = cuda.stream().device().freeBytes();
            try (CudaGraph graph = CudaGraph.capture(cuda.stream(), () -> gpu.run(ConvOptions.DEFAULT))) {
                for (Tensor offsets : new Tensor[] {first.offsets(), other, first.offsets()}) {
                    cuda.stream().write(offsets, gpu.offsets);
                    cuda.stream().write(offsets, eager.offsets);
                    gpu.poisonResults();
                    eager.run(ConvOptions.DEFAULT);
                    for (int i = 0; i < 30; i++) {
                        graph.launch();
                    }
                    Tolerance.assertSameBits("y", gpu.host(gpu.y), eager.host(eager.y));
                    Tolerance.assertSameBits("dx", gpu.host(gpu.gradients.dx()), eager.host(eager.gradients.dx()));
                    Tolerance.assertSameBits(
                            "dweight", gpu.host(gpu.gradients.dweight()), eager.host(eager.gradients.dweight()));
                    Tolerance.assertSameBits(
                            "dbias", gpu.host(gpu.gradients.dbias()), eager.host(eager.gradients.dbias()));
                }
            }
            assertThat(free - cuda.stream().device().freeBytes()).isLessThan(16L << 20);
        }
    }

    /** Two graphs of an engine that was prepared for no size, and calls of it between their replays. */
    @Test
    void workSpaceInACaptureIsTheGraphsOwn() {
        try (CudaConvEngine fresh = CudaConvEngine.open(0);
                ConvCase small = ConvCase.random(13, 64, 300, 5);
                ConvCase large = ConvCase.random(14, 64, 40, 1200);
                OnDevice one = new OnDevice(fresh, small, DType.F32);
                OnDevice two = new OnDevice(fresh, large, DType.F32);
                OnDevice wantOne = new OnDevice(fresh, small, DType.F32);
                OnDevice wantTwo = new OnDevice(fresh, large, DType.F32)) {
            CausalConv1d conv = new CausalConv1d(fresh, ConvOptions.DEFAULT);
            conv.prepare();
            try (CudaGraph first = CudaGraph.capture(fresh.stream(), () -> {
                        one.run(ConvOptions.DEFAULT);
                        Gradients sums = new Gradients(null, one.gradients.dweight(), null);
                        conv.backward(one.x, one.weight, null, one.offsets, null, sums);
                        conv.backward(one.x, one.weight, null, one.offsets, one.dy, sums);
                    });
                    CudaGraph second = CudaGraph.capture(fresh.stream(), () -> two.run(ConvOptions.DEFAULT))) {
                for (int i = 0; i < 10; i++) {
                    first.launch();
                    wantTwo.run(ConvOptions.DEFAULT);
                    second.launch();
                    wantOne.run(ConvOptions.DEFAULT);
                }
                assertSameResults(one, wantOne);
                assertSameResults(two, wantTwo);
            }
        }
    }

    private static void assertSameResults(OnDevice got, OnDevice want) {
        Tolerance.assertSameBits("y", got.host(got.y), want.host(want.y));
        Tolerance.assertSameBits("dx", got.host(got.gradients.dx()), want.host(want.gradients.dx()));
        Tolerance.assertSameBits("dweight", got.host(got.gradients.dweight()), want.host(want.gradients.dweight()));
    }

    @Test
    void callsFromAnyThread() throws InterruptedException {
        try (ConvCase in = ConvCase.random(12, 64, 100, 29);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(ConvOptions.DEFAULT)) {
            Tensor y = gpu.host(gpu.y);
            gpu.poisonResults();
            for (Thread.Builder kind : new Thread.Builder[] {Thread.ofPlatform(), Thread.ofVirtual()}) {
                Thread thread = kind.start(() -> gpu.run(ConvOptions.DEFAULT));
                thread.join();
                Tolerance.assertSameBits("y", gpu.host(gpu.y), y);
            }
        }
    }
}
