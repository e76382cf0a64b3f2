package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ShardTables.SeamRows;
import dev.kcp.conv.ShardTables.Span;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.conv.tree.NodeKey;
import dev.kcp.conv.tree.NodeStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.StridedView;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What would read or write outside a tensor, or over an input, is refused before any effect, naming what was found. */
class HostileArgumentsTest {
    private static final int ROWS = 12;
    private static final int CHANNELS = 16;

    private final CpuConvEngine engine = new CpuConvEngine(1);
    private final CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
    private final ConvCase in = ConvCase.random(1, CHANNELS, DType.F32, DType.F32, 5, 7);
    private final Operands operands = new Operands(in.x(), in.weight(), in.bias(), null);
    /** A fragment in the middle of a document: two history rows from elsewhere, and owed rows. */
    private final ShardTables part = ShardTables.of(
            100,
            List.of(new Span(40, ROWS, 38, 100)),
            new int[] {1, 0, -1},
            new int[] {2, 3, 4},
            new SeamRows(new int[] {0}, new int[] {0}, 3, 3));

    @AfterEach
    void close() {
        in.close();
        engine.close();
    }

    private static void refused(Runnable call, String... parts) {
        org.assertj.core.api.ThrowableAssertAlternative<IllegalArgumentException> thrown =
                assertThatIllegalArgumentException().isThrownBy(call::run);
        for (String one : parts) {
            thrown.withMessageContaining(one);
        }
    }

    private static Tensor bf16(long... shape) {
        return Tensor.zeros(DType.BF16, shape);
    }

    private static Tensor f32(long... shape) {
        return Tensor.zeros(DType.F32, shape);
    }

    private void backward(Gradients out) {
        conv.backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), out);
    }

    @Test
    void whatIsMissing() {
        Tensor y = bf16(ROWS, CHANNELS);
        refused(() -> conv.forward(null, in.weight(), null, in.offsets(), y), "x=null");
        refused(() -> conv.forward(in.x(), null, null, in.offsets(), y), "weight=null");
        refused(() -> conv.forward(in.x(), in.weight(), null, null, y), "cu_seqlens=null");
        refused(() -> backward(null), "gradients=null");
        refused(() -> new CausalConv1d(null, ConvOptions.DEFAULT), "engine=null");
        refused(() -> new CausalConv1d(engine, null), "options=null");
        refused(() -> new CausalConv1dFunction(conv).backward(null, null), "saved=null");
        refused(() -> Tensor.over(null, DType.F32, 1), "memory=null");
        refused(() -> Tensor.zeros(null, 1), "dtype=null");
        refused(() -> Memory.borrow(null, 64, 64), "device=null");
        refused(() -> new Device(null, 0), "kind=null");
        refused(() -> engine.seam(part, operands, ConvOptions.DEFAULT, y, 0), "history=null");
        refused(() -> engine.forward(null, operands, ConvOptions.DEFAULT, y), "shard=null");
    }

    @Test
    void gradientsOfOtherDimensionsOrWithGaps() {
        refused(() -> backward(new Gradients(null, f32(2, 8, 4), null)), "dweight=[2, 8, 4]", "C=16");
        refused(() -> backward(new Gradients(null, null, f32(2, 8))), "dbias=[2, 8]", "C=16");
        Tensor wide = f32(CHANNELS, 8);
        refused(() -> backward(new Gradients(null, wide.columns(0, 4), null)), "dweight must be dense", "pitch=8");
        refused(
                () -> conv.forward(in.x(), wide.columns(0, 4), null, in.offsets(), null),
                "weight must be dense",
                "pitch=8");
        refused(() -> backward(new Gradients(null, null, f32(CHANNELS, 4).columns(0, 1))), "dbias must be dense");
    }

    @Test
    void addressesOffSixteenBytes() {
        Memory memory = Memory.allocateHost(4096);
        Tensor x = Tensor.over(memory, 8, DType.BF16, ROWS, CHANNELS);
        refused(() -> conv.forward(x, in.weight(), null, in.offsets(), null), "x must start", "address=0x");
        Tensor weight = Tensor.over(memory, 4, DType.F32, CHANNELS, 4);
        refused(() -> conv.forward(in.x(), weight, null, in.offsets(), null), "weight must start", "address=0x");
        Tensor dx = Tensor.over(memory, 2, DType.BF16, ROWS, CHANNELS);
        refused(() -> backward(new Gradients(dx, null, null)), "dx must start", "address=0x");
        refused(() -> Tensor.over(memory, 2, DType.I32, 3), "dtype=I32", "address=0x");
        refused(() -> new StridedView(memory, 2, DType.F32, 1, 1, 1, 1), "dtype=F32", "address=0x");
    }

    /** Each pair of an output and another argument; the outputs are as they were. */
    @Test
    void outputsOverOtherArguments() {
        Memory room = Memory.allocateHost(1 << 16);
        Tensor xPart = Tensor.over(Memory.borrow(Device.CPU, in.x().address() + 32, 11 * 32L), DType.BF16, 11, 16);
        assertThat(xPart.overlaps(in.x())).isTrue();
        refused(() -> conv.forward(in.x(), in.weight(), null, in.offsets(), in.x()), "y overlaps x", "y=", "x=");
        for (String name : List.of("x", "weight", "bias", "cu_seqlens", "dy")) {
            Tensor dx = Tensor.over(room, DType.BF16, ROWS, CHANNELS);
            Tensor x = name.equals("x") ? copy(in.x(), room) : in.x();
            Tensor weight = name.equals("weight") ? copy(in.weight(), room) : in.weight();
            Tensor bias = name.equals("bias") ? copy(in.bias(), room) : in.bias();
            Tensor offsets = name.equals("cu_seqlens") ? copy(in.offsets(), room) : in.offsets();
            Tensor dy = name.equals("dy") ? copy(in.dy(), room) : in.dy();
            byte[] before = room.segment().toArray(ValueLayout.JAVA_BYTE);
            if (!name.equals("dy")) {
                refused(() -> conv.forward(x, weight, bias, offsets, dx), "y overlaps " + name, name + "=");
                Memory space = Memory.borrow(Device.CPU, room.address(), 1 << 16);
                refused(() -> conv.forward(x, weight, bias, offsets, null, space), "workspace overlaps " + name);
            }
            Tensor dweight = Tensor.over(room, DType.F32, CHANNELS, 4);
            Tensor dbias = Tensor.over(room, DType.F32, CHANNELS);
            for (Gradients out : List.of(
                    new Gradients(dx, null, null),
                    new Gradients(null, dweight, null),
                    new Gradients(null, null, dbias))) {
                refused(() -> conv.backward(x, weight, bias, offsets, dy, out), " overlaps " + name, name + "=");
            }
            refused(
                    () -> conv.backward(
                            x, weight, bias, offsets, dy, new Gradients(null, f32(CHANNELS, 4), null), room),
                    "workspace overlaps " + name);
            assertThat(room.segment().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(before);
        }
        Tensor dx = Tensor.over(room, DType.BF16, ROWS, CHANNELS);
        refused(
                () -> backward(new Gradients(dx, Tensor.over(room, 368, DType.F32, CHANNELS, 4), null)),
                "dx overlaps dweight");
        refused(
                () -> backward(new Gradients(dx, null, Tensor.over(room, 368, DType.F32, CHANNELS))),
                "dx overlaps dbias");
        refused(
                () -> backward(new Gradients(
                        null, Tensor.over(room, DType.F32, CHANNELS, 4), Tensor.over(room, 240, DType.F32, CHANNELS))),
                "dweight overlaps dbias");
    }

    private static Tensor copy(Tensor tensor, Memory room) {
        Tensor copy = Tensor.over(room, tensor.dtype(), tensor.shape());
        copy.segment().copyFrom(tensor.segment());
        return copy;
    }

    @Test
    void columnsOfOneBufferAreApart() {
        Tensor wide = bf16(ROWS, 3 * CHANNELS);
        Tensor x = wide.columns(0, CHANNELS);
        Tensor y = wide.columns(CHANNELS, 2 * CHANNELS);
        assertThatCode(() -> conv.forward(x, in.weight(), null, in.offsets(), y))
                .doesNotThrowAnyException();
        refused(() -> conv.forward(x, in.weight(), null, in.offsets(), wide.columns(8, 8 + CHANNELS)), "y overlaps x");
    }

    @Test
    void moreRowsThanTheKernelsCanCount() {
        Memory nowhere = Memory.borrow(Device.CPU, 64, 1L << 60);
        int most = ConvChecks.MOST_ROWS;
        assertThat(most).isEqualTo(2_147_483_136);
        Tensor x = Tensor.over(nowhere, DType.BF16, most, 8);
        assertThatCode(() -> ConvChecks.rows("x", x, Device.CPU)).doesNotThrowAnyException();
        for (long rows : new long[] {most + 1L, 2_147_483_584L, Integer.MAX_VALUE, 1L << 31, 1L << 40}) {
            Tensor larger = Tensor.over(nowhere, DType.BF16, rows, 8);
            refused(() -> conv.forward(larger, f32(8, 4), null, in.offsets(), null), "S=" + rows, "C=8");
            refused(() -> conv.backwardWorkspaceBytes(rows, 8), "rows=" + rows);
        }
        Tensor wide = Tensor.over(nowhere, DType.BF16, 1, (1L << 32) + 8);
        refused(() -> ConvChecks.rows("x", wide, Device.CPU), "C=4294967304");
        refused(() -> conv.forwardWorkspaceBytes(1, Long.MAX_VALUE), "channels=");
        refused(() -> conv.forwardWorkspaceBytes(-1, 8), "rows=-1");
    }

    @Test
    void buffersSmallerThanAShardAsks() {
        ConvOptions options = ConvOptions.DEFAULT;
        Operands withHistory = new Operands(in.x(), in.weight(), in.bias(), bf16(2, CHANNELS));
        Operands shortHistory = new Operands(in.x(), in.weight(), in.bias(), bf16(1, CHANNELS));
        Tensor y = bf16(ROWS, CHANNELS);
        refused(() -> engine.seam(part, shortHistory, options, y, 0), "history=[1, 16]", "rows=2");
        refused(() -> engine.head(part, withHistory, options, in.dy(), f32(2, CHANNELS)), "head=[2, 16]", "rows=3");
        refused(() -> engine.head(part, withHistory, options, in.dy(), bf16(3, CHANNELS)), "head", "dtype=BF16");
        refused(() -> engine.main(part, withHistory, options, in.dy(), y, null, null), "tail=null");
        Tensor tail = f32(3, CHANNELS);
        refused(
                () -> engine.main(part, withHistory, options, in.dy(), y, tail, f32(1, 5, CHANNELS - 8)),
                "sums=",
                "planes=5",
                "C=16");
        refused(
                () -> engine.main(
                        part, withHistory, options.withPolicy(SiluGradPolicy.FP32), in.dy(), y, tail, f32(1, 5, 16)),
                "dtype=F64");
        refused(() -> engine.owed(part, withHistory, tail, f32(4, CHANNELS), y), "received=[4, 16]", "rows=5");
        refused(() -> engine.owed(part, withHistory, tail, null, y), "received=null");
        refused(() -> engine.owed(part, withHistory, tail, f32(5, CHANNELS), in.x()), "dx overlaps x");
        Operands shortX = new Operands(in.x().rows(0, 11), in.weight(), in.bias(), bf16(2, CHANNELS));
        refused(() -> engine.forward(part, shortX, options, bf16(11, CHANNELS)), "S=11", "shardRows=12");
        refused(
                () -> engine.backward(part, withHistory, options, null, new Gradients(y, null, null), null),
                "whole batch",
                "headRows=3");
    }

    @Test
    void sumsThatAreNone() {
        refused(() -> engine.round(f32(1, 4, 8), f32(8, 4), f32(8)), "dbias of sums without a bias");
        refused(() -> engine.round(f32(1, 5, 8), f32(16, 4), null), "dweight=[16, 4]", "C=8");
        refused(() -> engine.round(f32(1, 3, 8), f32(8, 4), null), "sums=");
        refused(() -> engine.round(bf16(1, 5, 8), f32(8, 4), null), "sums=BF16");
        refused(() -> engine.round(null, f32(8, 4), null), "sums=null");
    }

    @Test
    void tablesThatNameNoRows() {
        refused(() -> new Span(-3, 2, -3, 9), "packedBegin=-3");
        refused(() -> ShardTables.of(50, List.of(new Span(40, 5, 0, 60)), new int[3], new int[3]), "documentEnd=60");
        int[] none = {-1, -1, -1};
        List<Span> one = List.of(new Span(4, 5, 0, 20));
        refused(() -> ShardTables.of(20, one, new int[] {-2, 0, 0}, none), "historyRow[0]=-2");
        for (int begin : new int[] {-1, 1}) {
            SeamRows seams = new SeamRows(new int[] {begin}, new int[] {0}, 3, 3);
            refused(() -> ShardTables.of(20, one, none, none, seams), "headBegin=" + begin, "rows=3");
        }
        refused(() -> ShardTables.ofDocuments(new int[] {5, 9}), "cu_seqlens[0]=5");
        NodeStack<Integer> stack = new NodeStack<>(200, Integer::sum);
        refused(() -> stack.push(NodeKey.whole(0, 4), 1), "leaves=4");
        stack.push(NodeKey.whole(0, 2), 1);
        refused(() -> stack.push(NodeKey.whole(0, 1), 1), "index=1");
    }

    @Test
    void rowsAndColumnsThatAreNotThere() {
        RowOps ops = engine.rowOps();
        refused(() -> ops.moves(new int[] {0, 0, 0}), "numbers=3");
        refused(() -> ops.moves(new int[] {0, 0, 2, 0}), "target=2");
        refused(() -> ops.moves(new int[] {-2, 0, 0, 0}), "source=-2");
        refused(() -> ops.moves(new int[] {0, -1, 0, 0}), "row=-1");
        Tensor two = bf16(2, 16);
        Tensor four = bf16(4, 16);
        RowOps.Table table = ops.moves(new int[] {0, 3, 0, 1, RowOps.ZEROS, 0, 0, 0});
        refused(() -> ops.move(table, List.of(two), List.of(bf16(2, 16)), 0), "source 0 lacks rows", "rows=4");
        refused(() -> ops.move(table, List.of(four), List.of(bf16(1, 16)), 0), "target 0 lacks rows", "rows=2");
        refused(() -> ops.move(table, List.of(four), List.of(bf16(2, 24)), 0), "rowBytes=32", "others=48");
        refused(() -> ops.move(table, Arrays.asList((Tensor) null), List.of(two), 0), "source 0=null");
        refused(() -> ops.move(table, List.of(four), List.of(four.rows(0, 2)), 0), "target overlaps source");
        RowOps.Table additions = ops.additions(new int[] {0, 2});
        refused(() -> ops.add(additions, f32(2, 8)), "wanted=3");
        refused(() -> ops.add(additions, bf16(3, 8)), "dtype=BF16");
        refused(() -> ops.copyColumns(two, 8, bf16(2, 16), 0, 9), "begin=8 end=17");
        refused(() -> ops.copyColumns(two, 0, bf16(3, 16), 0, 8), "columns=8");
        refused(() -> ops.copyColumns(two, 0, two, 4, 8), "to overlaps from");
        refused(() -> ops.zero(four.columns(0, 8)), "dense");
        assertThatCode(() -> ops.copyColumns(two, 0, two, 8, 8)).doesNotThrowAnyException();
    }

    @Test
    void viewsAndSizesThatOverflow() {
        Memory memory = Memory.allocateHost(64);
        refused(() -> new StridedView(memory, 0, DType.F32, 5, 1, 1L << 62, 0), "rowStride=");
        refused(() -> new StridedView(memory, 0, DType.F32, 5, 5, 4, 1), "memoryBytes=64");
        refused(
                () -> new StridedView(Memory.borrow(new Device(Device.Kind.CUDA, 0), 64, 64), 0, DType.F32, 1, 1, 1, 1),
                "device=cuda:0");
        refused(() -> new StridedView(memory, 0, DType.I32, 1, 1, 1, 1).toBf16(), "dtype=I32");
        refused(() -> Tensor.pitched(memory, 0, DType.BF16, 1L << 32, 1, 1L << 33), "pitchElements=");
        refused(() -> Tensor.over(memory, DType.BF16, (1L << 32) + 1, 1L << 32, 1), "shape=");
        refused(() -> Tensor.zeros(DType.F64, 1L << 61), "shape=");
        refused(() -> Memory.borrow(Device.CPU, 64, Long.MAX_VALUE), "bytes=");
        refused(() -> Memory.own(Device.CPU, 64, -1, () -> {}), "bytes=-1");
        refused(() -> bf16(2, 8).rowAddress(3), "row=3");
        Tensor closed = bf16(2, 8);
        closed.close();
        assertThatIllegalStateException().isThrownBy(() -> backward(new Gradients(closed, null, null)));
    }

    @Test
    void offsetsOfADevice() {
        Tensor far = Tensor.over(Memory.borrow(new Device(Device.Kind.CUDA, 0), 64, 64), DType.I32, 3);
        refused(() -> conv.forward(in.x(), in.weight(), null, far, null), "cu_seqlens", "device=cuda:0");
    }

    /** NaNs of either sign and any digits are one number in dweight and dbias. */
    @Test
    void aNotANumberHasOneForm() {
        for (DType type : new DType[] {DType.F32, DType.F64}) {
            Tensor sums = Tensor.zeros(type, 1, 5, 8);
            long[] doubles = {0x7FF8000000000000L, 0xFFF8000000000000L, 0x7FF8000020000000L, 0xFFFFFFFFE0000000L};
            int[] floats = {0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFC10001};
            for (int i = 0; i < 40; i++) {
                if (type == DType.F64) {
                    sums.segment().setAtIndex(ValueLayout.JAVA_LONG, i, doubles[i % 4]);
                } else {
                    sums.segment().setAtIndex(ValueLayout.JAVA_INT, i, floats[i % 4]);
                }
            }
            Tensor dweight = f32(8, 4);
            Tensor dbias = bf16(8);
            engine.round(sums, dweight, dbias);
            assertThat(dweight.segment().toArray(ValueLayout.JAVA_INT)).containsOnly(0x7FC00000);
            assertThat(dbias.segment().toArray(ValueLayout.JAVA_SHORT)).containsOnly((short) 0x7FC0);
        }
    }
}
