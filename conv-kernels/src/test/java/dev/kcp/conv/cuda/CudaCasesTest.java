package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.Tolerance;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Reports from users of related software as tests on a GPU; numbers are those of the list. Held by {@link CudaShapesTest}: 9,
 * 19, 22, 29, 30 and 50; by {@link CheckedModeTest}: 18 and 34; by {@link CudaParityTest}: 37; by {@link SecondDeviceTest}:
 * 45, 103, 104 and 106.
 */
@NeedsGpu
class CudaCasesTest {
    private static CudaConvEngine cuda;
    private static CudaStream stream;
    private static CausalConv1d conv;

    @BeforeAll
    static void open() {
        cuda = CudaConvEngine.open(0);
        stream = cuda.stream();
        conv = new CausalConv1d(cuda, ConvOptions.DEFAULT);
    }

    @AfterAll
    static void close() {
        cuda.close();
    }

    @Test
    void case6NoTokensAtNoAddress() {
        Tensor empty = Tensor.over(Memory.borrow(cuda.device(), 0, 0), DType.BF16, 0, 256);
        try (ConvCase in = ConvCase.random(6, 256);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32)) {
            conv.forward(empty, gpu.weight, null, gpu.offsets, empty);
            conv.backward(
                    empty, gpu.weight, null, gpu.offsets, empty, new Gradients(empty, gpu.gradients.dweight(), null));
            assertThat(gpu.host(gpu.gradients.dweight()).segment().toArray(ValueLayout.JAVA_BYTE))
                    .containsOnly(0);
        }
    }

    @Test
    void case8EmptyDocumentsDoNotWait() {
        try (ConvCase in = ConvCase.random(8, 64, 0, 5, 0, 0, 7, 0);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32)) {
            assertTimeoutPreemptively(Eventually.LIMIT, () -> {
                gpu.run(ConvOptions.DEFAULT);
                stream.synchronize();
            });
        }
    }

    /** Every tensor and the work space alone, with no memory before the first or after the last byte. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void case11And12NothingOutsideTheTensorsIsTouched(boolean atEnd) {
        int channels = 10_240;
        int rows = 4099;
        int[] lengths = new int[37];
        Random random = new Random(11);
        for (int row = 0; row < rows; row++) {
            lengths[random.nextInt(lengths.length)]++;
        }
        try (ConvCase in = ConvCase.random(11, channels, lengths);
                OnDevice plain = new OnDevice(cuda, in, DType.F32).run(ConvOptions.DEFAULT);
                MappedEdge edge = new MappedEdge(stream, atEnd)) {
            Tensor x = edge.copyOf(plain.x);
            Tensor dy = edge.copyOf(plain.dy);
            Tensor weight = edge.copyOf(plain.weight);
            Tensor offsets = edge.copyOf(plain.offsets);
            Tensor y = edge.room(DType.BF16, rows, channels);
            Gradients out =
                    new Gradients(edge.room(DType.BF16, rows, channels), edge.room(DType.F32, channels, 4), null);
            long spaceBytes = conv.backwardWorkspaceBytes(rows, channels);
            Tensor room = edge.room(DType.BF16, spaceBytes / 2);
            Memory space = Memory.borrow(cuda.device(), room.address(), spaceBytes);
            for (int call = 0; call < 50; call++) {
                conv.forward(x, weight, null, offsets, y);
                conv.backward(x, weight, null, offsets, dy, out, space);
            }
            stream.synchronize();
            assertSame("y", y, plain.y);
            assertSame("dx", out.dx(), plain.gradients.dx());
            assertSame("dweight", out.dweight(), plain.gradients.dweight());
        }
    }

    private static void assertSame(String name, Tensor got, Tensor want) {
        try (Tensor a = stream.download(got);
                Tensor b = stream.download(want)) {
            Tolerance.assertSameBits(name, a, b);
        }
    }

    /** Each pointer in turn off its 16 bytes: a typed error that names it, and no launch. */
    @Test
    void case28EveryMisalignedTensorIsNamed() {
        try (ConvCase in = ConvCase.random(28, 48, DType.F32, DType.F32, 20);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32);
                Memory room = stream.allocate(1 << 16)) {
            for (int shift : new int[] {2, 4, 6, 8}) {
                Tensor rows = off(room, shift, DType.BF16, 20, 48);
                refused("x", () -> conv.forward(rows, gpu.weight, gpu.bias, gpu.offsets, gpu.y));
                refused("y", () -> conv.forward(gpu.x, gpu.weight, gpu.bias, gpu.offsets, rows));
                refused("dy", () -> backward(gpu, gpu.weight, gpu.bias, rows, gpu.gradients));
                refused("dx", () -> backward(gpu, gpu.weight, gpu.bias, gpu.dy, new Gradients(rows, null, null)));
            }
            for (int shift : new int[] {4, 8, 12}) {
                Tensor taps = off(room, shift, DType.F32, 48, 4);
                Tensor bias = off(room, shift, DType.F32, 48);
                refused("weight", () -> conv.forward(gpu.x, taps, gpu.bias, gpu.offsets, gpu.y));
                refused("bias", () -> conv.forward(gpu.x, gpu.weight, bias, gpu.offsets, gpu.y));
                refused("dweight", () -> backward(gpu, gpu.weight, gpu.bias, gpu.dy, new Gradients(null, taps, null)));
                refused("dbias", () -> backward(gpu, gpu.weight, gpu.bias, gpu.dy, new Gradients(null, null, bias)));
            }
            assertThat(gpu.host(gpu.y).segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0xFF);
            gpu.run(ConvOptions.DEFAULT);
        }
    }

    private static Tensor off(Memory room, int bytes, DType dtype, long... shape) {
        return Tensor.over(Memory.borrow(cuda.device(), room.address() + bytes, room.bytes() - bytes), dtype, shape);
    }

    private static void backward(OnDevice gpu, Tensor weight, Tensor bias, Tensor dy, Gradients out) {
        conv.backward(gpu.x, weight, bias, gpu.offsets, dy, out);
    }

    private static void refused(String name, Runnable call) {
        assertThatIllegalArgumentException()
                .isThrownBy(call::run)
                .withMessageStartingWith(name + " must start at a multiple of 16 bytes: address=0x");
    }

    /** A slice of a fused projection whose rows lie further apart than 32 bits can count. */
    @Test
    void case32LastRowsOfASliceOfAFusedProjection() {
        int rows = 60_000;
        int channels = 128;
        long pitch = 36_864;
        try (ConvCase tail = ConvCase.random(32, channels, 9);
                OnDevice alone = new OnDevice(cuda, tail, DType.F32).run(ConvOptions.DEFAULT);
                Tensor wide = stream.zeros(DType.BF16, rows, pitch);
                Tensor offsets = ConvCase.ints(0, rows - 9, rows);
                Tensor offsetsOnDevice = stream.upload(offsets);
                Tensor y = stream.uninitialized(DType.BF16, rows, channels);
                Gradients out = new Gradients(
                        stream.uninitialized(DType.BF16, rows, channels),
                        stream.uninitialized(DType.F32, channels, 4),
                        null)) {
            Memory memory = Memory.borrow(cuda.device(), wide.address(), wide.elements() * 2);
            Tensor x = Tensor.pitched(memory, 0, DType.BF16, rows, channels, pitch);
            Tensor dy = Tensor.pitched(memory, channels * 2L, DType.BF16, rows, channels, pitch);
            for (int r = 0; r < 9; r++) {
                stream.copy(alone.x.rowAddress(r), x.rowAddress(rows - 9 + r), channels * 2L);
                stream.copy(alone.dy.rowAddress(r), dy.rowAddress(rows - 9 + r), channels * 2L);
            }
            conv.forward(x, alone.weight, null, offsetsOnDevice, y);
            conv.backward(x, alone.weight, null, offsetsOnDevice, dy, out);
            assertSame("y", y.rows(rows - 9, rows), alone.y);
            assertSame("dx", out.dx().rows(rows - 9, rows), alone.gradients.dx());
            try (Tensor sums = stream.download(out.dweight());
                    Tensor want = stream.download(alone.gradients.dweight())) {
                for (int c = 0; c < channels; c++) {
                    for (int k = 0; k < 4; k++) {
                        double expected = ConvCase.get(want, c, k);
                        assertThat(ConvCase.get(sums, c, k))
                                .as("dweight[%d][%d]", c, k)
                                .isCloseTo(expected, org.assertj.core.data.Offset.offset(1e-5));
                    }
                }
            }
        }
    }

    @Test
    void case27OneRowOfAnyPitch() {
        try (ConvCase in = ConvCase.random(27, 8, 1);
                OnDevice gpu = new OnDevice(cuda, in, DType.F32).run(ConvOptions.DEFAULT)) {
            Tensor want = gpu.host(gpu.y);
            Tensor wantDx = gpu.host(gpu.gradients.dx());
            for (int pitch : new int[] {9, 17, 1000}) {
                Memory row = Memory.borrow(cuda.device(), gpu.x.address(), 16);
                Tensor one = Tensor.pitched(row, 0, DType.BF16, 1, 8, pitch);
                gpu.poisonResults();
                conv.forward(one, gpu.weight, null, gpu.offsets, gpu.y);
                conv.backward(one, gpu.weight, null, gpu.offsets, gpu.dy, gpu.gradients);
                Tolerance.assertSameBits("y", gpu.host(gpu.y), want);
                Tolerance.assertSameBits("dx", gpu.host(gpu.gradients.dx()), wantDx);
            }
        }
    }
}
