package dev.kcp.conv;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** One geometry after another that has broken software of this kind, against the FP64 reference. */
class CausalConv1dGeometryTest {
    private static final CpuConvEngine ENGINE = new CpuConvEngine(2);

    @AfterAll
    static void closeEngine() {
        ENGINE.close();
    }

    private static CausalConv1d conv(SiluGradPolicy policy) {
        return new CausalConv1d(ENGINE, ConvOptions.DEFAULT.withPolicy(policy));
    }

    private static CausalConv1d conv() {
        return conv(SiluGradPolicy.BF16);
    }

    /** All results between canaries, from inputs between canaries, each {@code shift} elements off. */
    private static void assertMatchesReference(ConvCase in, SiluGradPolicy policy, int shift) {
        try (Guarded guarded = new Guarded()) {
            Tensor x = guarded.copyOf(in.x(), shift);
            Tensor dy = guarded.copyOf(in.dy(), shift);
            Tensor weight = guarded.copyOf(in.weight(), 0);
            Tensor bias = in.bias() == null ? null : guarded.copyOf(in.bias(), 0);
            Tensor y = guarded.poisoned(shift, DType.BF16, in.rows(), in.channels());
            Gradients out = new Gradients(
                    guarded.poisoned(shift, DType.BF16, in.rows(), in.channels()),
                    guarded.poisoned(0, DType.F32, in.channels(), 4),
                    bias == null ? null : guarded.poisoned(0, DType.F32, in.channels()));
            conv(policy).forward(x, weight, bias, in.offsets(), y);
            conv(policy).backward(x, weight, bias, in.offsets(), dy, out);
            guarded.assertCanariesIntact();
            ReferenceConv.Result expected = ReferenceConv.run(in, policy);
            Tolerance.assertY(y, expected);
            Tolerance.assertDx(out.dx(), expected);
            Tolerance.assertSums(out.dweight(), out.dbias(), expected, policy);
        }
    }

    private static void assertMatchesReference(int channels, int... lengths) {
        for (SiluGradPolicy policy : SiluGradPolicy.values()) {
            try (ConvCase in = ConvCase.random(lengths.length, channels, DType.F32, DType.F32, lengths)) {
                assertMatchesReference(in, policy, 0);
            }
        }
    }

    @Test
    void noTokenGivesZeroSumsAndTouchesNothing() {
        for (int[] lengths : new int[][] {{0}, {0, 0}, {}}) {
            try (ConvCase in = ConvCase.random(1, 256, DType.F32, DType.F32, lengths);
                    Guarded guarded = new Guarded()) {
                Gradients out = new Gradients(
                        guarded.poisoned(0, DType.BF16, 0, 256),
                        guarded.poisoned(0, DType.F32, 256, 4),
                        guarded.poisoned(0, DType.F32, 256));
                conv().forward(in.x(), in.weight(), in.bias(), in.offsets(), in.x());
                conv().backward(in.x(), in.weight(), in.bias(), in.offsets(), null, out);
                guarded.assertCanariesIntact();
                assertThat(out.dweight().segment().toArray(ValueLayout.JAVA_BYTE))
                        .containsOnly(0);
                assertThat(out.dbias().segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
            }
        }
    }

    @Test
    void emptyDocumentsBetweenOthers() {
        assertMatchesReference(64, 0, 5, 0, 0, 7, 0);
    }

    static IntStream lengthsAroundTileEdges() {
        return IntStream.of(1, 60, 127, 1020, 2046)
                .flatMap(first -> IntStream.range(first, first + (first < 60 ? 8 : first < 2046 ? 13 : 7)));
    }

    @ParameterizedTest
    @MethodSource("lengthsAroundTileEdges")
    void oneDocumentAroundTileEdges(int length) {
        assertMatchesReference(40, length);
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 16, 24, 120, 128, 136, 264, 1032})
    void channelsAroundVectorAndBlockEdges(int channels) {
        assertMatchesReference(channels, 9, 70, 1, 2, 3);
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 16, 24, 40})
    void buffersOffAnyAlignmentButThatOfSixteenBytes(int shift) {
        try (ConvCase in = ConvCase.random(shift, 48, 17, 70)) {
            assertMatchesReference(in, SiluGradPolicy.FP32, shift);
        }
    }

    @Test
    void seventyThousandDocumentsOfOneToken() {
        int[] lengths = new int[70_000];
        Arrays.fill(lengths, 1);
        assertMatchesReference(8, lengths);
    }

    @Test
    void seventyThousandRowsInOneDocument() {
        assertMatchesReference(8, 70_000);
    }

    @ParameterizedTest
    @ValueSource(ints = {65_536, 70_000})
    void moreChannelsThanAGridAxisHolds(int channels) {
        assertMatchesReference(channels, 3, 1);
    }

    @Test
    void batchDimensionOfOne() {
        try (ConvCase in = ConvCase.random(4, 24, 5, 9);
                Tensor flat = conv().forward(in.x(), in.weight(), null, in.offsets(), null)) {
            Tensor batched = Tensor.over(
                    Memory.borrow(Device.CPU, in.x().address(), in.x().elements() * 2), DType.BF16, 1, 14, 24);
            try (Tensor y = conv().forward(batched, in.weight(), null, in.offsets(), null)) {
                assertThat(y.shape()).containsExactly(1, 14, 24);
                assertSameBits("y", y, flat);
            }
        }
    }

    @Test
    void slicesOfAFusedProjection() {
        int channels = 96;
        int rows = 777;
        try (ConvCase in = ConvCase.random(5, channels, 300, 477);
                Memory wideX = Memory.allocateHost(rows * 3L * channels * 2);
                Memory wideDy = Memory.allocateHost(rows * 3L * channels * 2);
                Memory wideDx = Memory.allocateHost(rows * 3L * channels * 2);
                Tensor y = conv().forward(in.x(), in.weight(), null, in.offsets(), null);
                Gradients dense = Gradients.allocate(in.x(), in.weight(), null)) {
            Tensor x = slice(wideX, rows, channels);
            Tensor dy = slice(wideDy, rows, channels);
            Tensor dx = slice(wideDx, rows, channels);
            for (int r = 0; r < rows; r++) {
                HostMemory.copy(in.x().rowAddress(r), x.rowAddress(r), channels * 2L);
                HostMemory.copy(in.dy().rowAddress(r), dy.rowAddress(r), channels * 2L);
            }
            wideDx.segment().fill((byte) 0x5A);
            conv().backward(in.x(), in.weight(), null, in.offsets(), in.dy(), dense);
            try (Tensor dweight = Tensor.zeros(DType.F32, channels, 4);
                    Tensor yOfSlice = conv().forward(x, in.weight(), null, in.offsets(), null)) {
                conv().backward(x, in.weight(), null, in.offsets(), dy, new Gradients(dx, dweight, null));
                assertSameBits("y", yOfSlice, y);
                assertSameBits("dweight", dweight, dense.dweight());
                for (int r = 0; r < rows; r++) {
                    assertSameBits("dx row", dx.rows(r, r + 1), dense.dx().rows(r, r + 1));
                }
                long first = wideDx.segment()
                        .asSlice(0, channels * 2L)
                        .mismatch(MemorySegment.ofArray(filled(channels * 2)));
                assertThat(first).as("columns beside the slice").isEqualTo(-1);
            }
        }
    }

    private static byte[] filled(int bytes) {
        byte[] array = new byte[bytes];
        Arrays.fill(array, (byte) 0x5A);
        return array;
    }

    /** The middle third of every row. */
    private static Tensor slice(Memory memory, int rows, int channels) {
        return Tensor.pitched(memory, channels * 2L, DType.BF16, rows, channels, 3L * channels);
    }

    @Test
    void rowsFurtherApartThanThirtyTwoBitsCanCount(@TempDir Path folder) throws IOException {
        int rows = 6_000;
        int channels = 128;
        long pitch = 368_640;
        Path file = folder.resolve("sparse");
        try (FileChannel channel = FileChannel.open(
                        file, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE);
                Arena arena = Arena.ofShared();
                ConvCase tail = ConvCase.random(8, channels, 7);
                Tensor offsets = ConvCase.ints(0, rows)) {
            MemorySegment mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, rows * pitch * 2, arena);
            Memory memory = Memory.borrow(Device.CPU, mapped.address(), mapped.byteSize());
            Tensor x = Tensor.pitched(memory, 0, DType.BF16, rows, channels, pitch);
            for (int r = 0; r < 7; r++) {
                HostMemory.copy(tail.x().rowAddress(r), x.rowAddress(rows - 7 + r), channels * 2L);
            }
            try (Tensor y = conv().forward(x, tail.weight(), null, offsets, null);
                    Tensor expected = conv().forward(tail.x(), tail.weight(), null, tail.offsets(), null)) {
                assertSameBits("last rows", y.rows(rows - 7, rows), expected);
                for (int c = 0; c < channels; c++) {
                    assertThat(ConvCase.get(y, rows - 8, c)).isZero();
                }
            }
        }
        Files.delete(file);
    }

    @Test
    void slackRowsBecomeZerosInReusedBuffers() {
        CausalConv1d lenient = new CausalConv1d(ENGINE, new ConvOptions(SiluGradPolicy.BF16, ConvMath.FAST, true));
        try (ConvCase in = ConvCase.random(6, 256, 900, 44, 2);
                Tensor offsets = ConvCase.ints(0, 900, 944);
                Tensor y = Tensor.zeros(DType.BF16, 946, 256);
                Gradients out = Gradients.allocate(in.x(), in.weight(), null);
                Tensor dweight = Tensor.zeros(DType.F32, 256, 4)) {
            for (int call = 0; call < 3; call++) {
                y.segment().fill((byte) 0xFF);
                out.dx().segment().fill((byte) 0xFF);
                lenient.forward(in.x(), in.weight(), null, offsets, y);
                lenient.backward(in.x(), in.weight(), null, offsets, in.dy(), out);
                for (Tensor tensor : List.of(y, out.dx())) {
                    assertThat(tensor.rows(944, 946).segment().toArray(ValueLayout.JAVA_BYTE))
                            .containsOnly(0);
                }
            }
            conv().backward(
                            in.x().rows(0, 944),
                            in.weight(),
                            null,
                            offsets,
                            in.dy().rows(0, 944),
                            new Gradients(null, dweight, null));
            assertSameBits("dweight adds nothing for slack", out.dweight(), dweight);
        }
    }

    @Test
    void productsAreNotRoundedBeforeTheSum() {
        try (Tensor x = Tensor.zeros(DType.BF16, 2, 8);
                Tensor weight = Tensor.zeros(DType.F32, 8, 4);
                Tensor offsets = ConvCase.ints(0, 2)) {
            ConvCase.set(x, 0, 0, 1.0078125f);
            ConvCase.set(x, 1, 0, 1f);
            ConvCase.set(weight, 0, 2, 1.0078125f);
            ConvCase.set(weight, 0, 3, -1.015625f);
            try (Tensor y = conv().forward(x, weight, null, offsets, null)) {
                double p = 0x1p-14;
                assertThat(ConvCase.get(y, 1, 0)).isCloseTo(p / (1 + Math.exp(-p)), within(p * 0x1p-8));
            }
        }
    }

    private static org.assertj.core.data.Offset<Double> within(double offset) {
        return org.assertj.core.data.Offset.offset(offset);
    }

    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void infinitiesAndNaNStayInTheirDocumentAndWindow(SiluGradPolicy policy) {
        try (ConvCase in = ConvCase.random(7, 16, 6, 9);
                Tensor clean = conv(policy).forward(in.x(), in.weight(), null, in.offsets(), null);
                Gradients before = Gradients.allocate(in.x(), in.weight(), null);
                Gradients after = Gradients.allocate(in.x(), in.weight(), null)) {
            conv(policy).backward(in.x(), in.weight(), null, in.offsets(), in.dy(), before);
            ConvCase.set(in.x(), 4, 3, Float.NaN);
            ConvCase.set(in.x(), 5, 2, Float.POSITIVE_INFINITY);
            try (Tensor y = conv(policy).forward(in.x(), in.weight(), null, in.offsets(), null)) {
                conv(policy).backward(in.x(), in.weight(), null, in.offsets(), in.dy(), after);
                assertThat(ConvCase.get(y, 4, 3)).isNaN();
                assertThat(ConvCase.get(y, 5, 3)).isNaN();
                double inf = ConvCase.get(in.weight(), 2, 3) * Double.POSITIVE_INFINITY;
                assertThat(ConvCase.get(y, 5, 2)).isEqualTo(inf > 0 ? inf : -0.0);
                assertSameBits("other document", y.rows(6, 15), clean.rows(6, 15));
                assertSameBits("rows before", y.rows(0, 4), clean.rows(0, 4));
                assertSameBits(
                        "dx of the other document",
                        after.dx().rows(6, 15),
                        before.dx().rows(6, 15));
                for (int c = 0; c < 16; c++) {
                    for (int k = 0; k < 4 && c != 2 && c != 3; k++) {
                        assertThat(ConvCase.get(after.dweight(), c, k)).isEqualTo(ConvCase.get(before.dweight(), c, k));
                    }
                }
            }
        }
    }

    /** An infinite gradient at a document's first row meets no absent row: only the present tap's sum is infinite. */
    @Test
    void infiniteGradientMakesNoNaNWithRowsBeforeTheDocument() {
        for (SiluGradPolicy policy : SiluGradPolicy.values()) {
            for (int channels : new int[] {8, 24, 40}) {
                try (ConvCase in = ConvCase.random(2, channels, 5);
                        Gradients out = Gradients.allocate(in.x(), in.weight(), null)) {
                    ConvCase.set(in.dy(), 0, channels - 1, Float.POSITIVE_INFINITY);
                    conv(policy).backward(in.x(), in.weight(), null, in.offsets(), in.dy(), out);
                    assertThat(ConvCase.get(out.dweight(), channels - 1, 3)).isInfinite();
                    for (int k = 0; k < 3; k++) {
                        assertThat(ConvCase.get(out.dweight(), channels - 1, k)).isFinite();
                    }
                }
            }
        }
    }

    @Test
    void offsetsRewrittenInPlaceAreReadAgain() {
        try (ConvCase in = ConvCase.random(3, 16, 12);
                Tensor offsets = ConvCase.ints(0, 5, 12);
                Tensor other = ConvCase.ints(0, 7, 12);
                Tensor y1 = conv().forward(in.x(), in.weight(), null, offsets, null);
                Tensor y2 = conv().forward(in.x(), in.weight(), null, other, null)) {
            offsets.segment().setAtIndex(ValueLayout.JAVA_INT, 1, 7);
            try (Tensor again = conv().forward(in.x(), in.weight(), null, offsets, null)) {
                assertSameBits("second layout", again, y2);
            }
            offsets.segment().setAtIndex(ValueLayout.JAVA_INT, 1, 5);
            try (Tensor again = conv().forward(in.x(), in.weight(), null, offsets, null)) {
                assertSameBits("first layout", again, y1);
            }
        }
    }

    @Test
    void twoThreadsAtOnceAreSerialised() throws Exception {
        try (ConvCase in = ConvCase.random(3, 64, 40, 100);
                Tensor expected = conv().forward(in.x(), in.weight(), null, in.offsets(), null);
                ExecutorService threads = Executors.newFixedThreadPool(3)) {
            Callable<Boolean> task = () -> {
                for (int i = 0; i < 200; i++) {
                    try (Tensor y = conv().forward(in.x(), in.weight(), null, in.offsets(), null)) {
                        assertSameBits("y", y, expected);
                    }
                }
                return true;
            };
            List<Future<Boolean>> futures = new ArrayList<>(threads.invokeAll(List.of(task, task, task)));
            for (Future<Boolean> future : futures) {
                assertThat(future.get()).isTrue();
            }
        }
    }

    @Test
    void gradientsNotAskedForAreNotNeeded() {
        try (ConvCase in = ConvCase.random(3, 24, DType.BF16, DType.F32, 30, 50);
                Gradients all = Gradients.allocate(in.x(), in.weight(), in.bias());
                Tensor dx = Tensor.zeros(DType.BF16, 80, 24);
                Tensor dbias = Tensor.zeros(DType.F32, 24)) {
            conv().backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), all);
            conv().backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), new Gradients(dx, null, null));
            conv().backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), new Gradients(null, null, dbias));
            assertSameBits("dx", dx, all.dx());
            assertSameBits("dbias", dbias, all.dbias());
        }
    }

    @Test
    void randomOffsetsFreedAtOnceNeverMeetAnOldPlan() {
        Random random = new Random(1);
        try (ConvCase in = ConvCase.random(3, 8, 64)) {
            for (int i = 0; i < 300; i++) {
                int cut = random.nextInt(65);
                try (Tensor offsets = ConvCase.ints(0, cut, 64);
                        Tensor y = conv().forward(in.x(), in.weight(), null, offsets, null)) {
                    ConvCase same = new ConvCase(new int[] {0, cut, 64}, in.x(), in.weight(), null, offsets, in.dy());
                    Tolerance.assertY(y, ReferenceConv.run(same, SiluGradPolicy.FP32));
                }
            }
        }
    }
}
