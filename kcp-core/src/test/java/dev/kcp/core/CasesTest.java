package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.ReferenceConv;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Tensor;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Reports from users of related software as tests; numbers are those of the list. Held by other tests: 7 and 10
 * CallerHistoryTest, 13 KcpConv1dTest, 15 ByteCountsTest, 20 by poisoned buffers in {@link Sharded}, 43, 44 and 48
 * PlanCacheTest, 54, 70, 71, 72, 74 and 76 LifecycleTest, 55 and 77 ExchangeTest, 56, 57 and 100 SoakTest, 62 and 63
 * RecomputeHandleTest, 64, 68, 73 and 75 FailureTest, 69 TcpProcessTest.
 */
class CasesTest {
    /** Case 8: empty documents among others. */
    @ParameterizedTest
    @EnumSource(Layout.class)
    void case8EmptyDocumentsBetweenOthers(Layout layout) {
        int[] lengths = {0, 5, 0, 0, 7, 0};
        try (ConvCase in = ConvCase.random(8, 64, lengths);
                Sharded alone = Sharded.alone(in, ConvOptions.DEFAULT);
                Sharded over = Sharded.over(
                        Partition.of(layout, CuSeqlens.ofLengths(lengths), 3, 1), in, ConvOptions.DEFAULT, true)) {
            assertSameBits("y", over.y(), alone.y());
            assertSameBits("dx", over.dx(), alone.dx());
        }
    }

    /** Case 14: packed and singly run documents agree. */
    @Test
    void case14PackedAndSinglyRunDocumentsAgree() {
        Random random = new Random(14);
        int[] lengths = random.ints(10, 1, 51).toArray();
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(lengths), 4, 1);
        try (ConvCase in = ConvCase.random(14, 256, lengths);
                Sharded packed = Sharded.over(partition, in, ConvOptions.DEFAULT, false)) {
            for (int d = 0; d < lengths.length; d++) {
                int begin = in.begin(d);
                int end = begin + lengths[d];
                ConvCase single = new ConvCase(
                        new int[] {0, lengths[d]},
                        in.x().rows(begin, end),
                        in.weight(),
                        null,
                        ConvCase.ints(0, lengths[d]),
                        in.dy().rows(begin, end));
                try (Sharded alone = Sharded.alone(single, ConvOptions.DEFAULT)) {
                    assertSameBits("y", packed.y().rows(begin, end), alone.y());
                    assertSameBits("dx", packed.dx().rows(begin, end), alone.dx());
                }
                single.offsets().close();
            }
            Tolerance.assertSums(
                    packed.dweight(), null, ReferenceConv.run(in, SiluGradPolicy.BF16), SiluGradPolicy.BF16);
        }
    }

    /** Cases 38 and 42: the same bits on 1, 2, 4, 8 ranks; the sum over ranks is neither scaled nor changed by a second call. */
    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void case38And42SameBitsOnAnyNumberOfRanks(SiluGradPolicy policy) {
        int[] lengths = {300, 1, 2, 700, 64, 21};
        ConvOptions options = ConvOptions.DEFAULT.withPolicy(policy);
        try (ConvCase in = ConvCase.random(38, 256, DType.BF16, DType.F32, lengths);
                Sharded alone = Sharded.alone(in, options)) {
            for (int ranks : new int[] {2, 4, 8}) {
                for (Layout layout : List.of(Layout.CONTIGUOUS, Layout.ZIGZAG)) {
                    Partition partition = Partition.of(layout, CuSeqlens.ofLengths(lengths), ranks, 64);
                    try (Sharded over = Sharded.over(partition, in, options, false)) {
                        assertSameBits("y", over.y(), alone.y());
                        assertSameBits("dx", over.dx(), alone.dx());
                        assertSameBits("dweight", over.dweight(), alone.dweight());
                        assertSameBits("dbias", over.dbias(), alone.dbias());
                    }
                }
            }
        }
    }

    @Test
    void case42ReducingTwiceHasNoEffect() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(256), 4, 64);
        onRanks(partition, (rank, conv, context) -> {
            try (Saved saved = rank.forward(conv, context);
                    PartialGradients sums = conv.backward(saved, rank.dy, null);
                    Gradients once = conv.reduceGradients(List.of(sums), DType.F32);
                    Gradients twice = conv.reduceGradients(List.of(sums), DType.F32)) {
                assertSameBits("dweight", twice.dweight(), once.dweight());
            }
        });
    }

    /** Case 18: rows beyond the documents are refused by the rank that has them, and all ranks are told. */
    @Test
    void case18RowsBeyondTheDocumentsAreRefused() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(944), 2, 1);
        assertThatThrownBy(() -> LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
                    int rows = communicator.rank() == 1 ? 474 : 472;
                    try (ConvEngine engine = new CpuConvEngine(1);
                            KcpContext context = new KcpContext(partition, communicator, engine);
                            ConvCase in = ConvCase.random(18, 8, rows)) {
                        KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);
                        return conv.forward(context, in.x(), in.weight(), null, in.dy(), null);
                    }
                }))
                .hasMessageContaining("rows=474 tokens=472 rank=1");
    }

    /** Case 65: a rank with only slack rows gives zeros and joins the sum. */
    @Test
    void case65ARankWithOnlySlackRowsJoinsTheSum() {
        Partition partition = Partition.ofFragments(
                CuSeqlens.ofLengths(96),
                List.of(
                        List.of(new Fragment(0, 0, 32)),
                        List.of(new Fragment(0, 32, 32)),
                        List.of(new Fragment(0, 64, 32)),
                        List.of()));
        ConvOptions slack = new ConvOptions(SiluGradPolicy.BF16, ConvOptions.DEFAULT.math(), true);
        LocalRanks.run(4, Sharded.DEADLINE, communicator -> {
            int rows = partition.tokens(communicator.rank()) + 5;
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = new KcpContext(partition, communicator, engine);
                    ConvCase in = ConvCase.random(65, 16, rows);
                    Tensor y = Tensor.zeros(DType.BF16, rows, 16);
                    Tensor dx = Tensor.zeros(DType.BF16, rows, 16)) {
                y.segment().fill((byte) 0xFF);
                dx.segment().fill((byte) 0xFF);
                KcpConv1d conv = new KcpConv1d("layer0", slack);
                try (Saved saved = conv.forward(context, in.x(), in.weight(), null, y, null);
                        PartialGradients sums = conv.backward(saved, in.dy(), dx);
                        Gradients reduced = conv.reduceGradients(List.of(sums), DType.F32)) {
                    assertThat(ConvCase.get(reduced.dweight(), 3, 3))
                            .as("the sum of the other ranks")
                            .isNotZero();
                    for (int row = rows - 5; row < rows; row++) {
                        assertThat(ConvCase.get(y, row, 3)).isZero();
                        assertThat(ConvCase.get(dx, row, 3)).isZero();
                    }
                }
            }
            return null;
        });
    }

    /** Case 66: control calls of one rank disturb no exchange. */
    @Test
    void case66ControlCallsOfOneRankDisturbNoExchange() {
        Partition partition = Partition.of(Layout.ZIGZAG, CuSeqlens.ofLengths(40, 3), 3, 1);
        onRanks(partition, (rank, conv, context) -> {
            for (int step = 0; step < 50; step++) {
                if (context.communicator().rank() == 0) {
                    assertThat(context.communicator().stats().calls()).isNotNull();
                    context.awaitAgreement();
                }
                rank.step(conv, context);
            }
            assertThat(conv.exchanges()).isEqualTo(new ExchangeCounts(50, 0, 50));
        });
    }

    /** Case 75 for contexts and saved sets: closing twice is harmless, use after close is refused. */
    @Test
    void case75ClosedTwiceThenUsed() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(8), 1, 1);
        onRanks(partition, (rank, conv, context) -> {
            Saved saved = rank.forward(conv, context);
            saved.close();
            saved.close();
            assertThatThrownBy(() -> conv.backward(saved, rank.dy, null))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("saved set was closed");
        });
        onRanks(partition, (rank, conv, context) -> {
            context.close();
            context.close();
            assertThatThrownBy(() -> rank.forward(conv, context))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("context was closed");
        });
    }

    /** Rows of a GPU over a communicator for host memory would be read at addresses that are not the host's. */
    @Test
    void aContextWantsAnEngineWhereItsCommunicatorMovesRows() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(8), 2, 1);
        ConvEngine onGpu = (ConvEngine) Proxy.newProxyInstance(
                ConvEngine.class.getClassLoader(),
                new Class<?>[] {ConvEngine.class},
                (_, method, _) -> method.getName().equals("device") ? new Device(Device.Kind.CUDA, 1) : null);
        LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
            assertThatThrownBy(() -> new KcpContext(partition, communicator, onGpu))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageEndingWith("transport=local communicatorDevice=cpu engineDevice=cuda:1");
            return null;
        });
    }

    @Test
    void aSavedSetIsForTheCallThatMadeIt() {
        onRanks(Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(8), 1, 1), (rank, conv, context) -> {
            KcpConv1d other = new KcpConv1d("layer7", ConvOptions.DEFAULT);
            try (Saved saved = rank.forward(conv, context)) {
                assertThatThrownBy(() -> other.backward(saved, rank.dy, rank.dx))
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining("savedBy=" + conv.label() + " call=layer7 rank=0");
            }
        });
    }

    /** The exchange may be awaited before main runs; bits do not change. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2})
    void withoutOverlapTheBitsAreTheSame(long seed) {
        Random random = new Random(seed);
        Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(Geometry.lengths(random)), 4);
        onRanks(partition, (rank, conv, context) -> {
            rank.step(conv, context);
            Tensor y = rank.copy(rank.y);
            Tensor dx = rank.copy(rank.dx);
            rank.step(KcpConv1d.inSeries("plain", ConvOptions.DEFAULT), context);
            assertSameBits("y", rank.y, y);
            assertSameBits("dx", rank.dx, dx);
            y.close();
            dx.close();
        });
    }

    private interface Body {
        void run(Rank rank, KcpConv1d conv, KcpContext context);
    }

    private static void onRanks(Partition partition, Body body) {
        LocalRanks.run(partition.ranks(), Sharded.DEADLINE, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = new KcpContext(partition, communicator, engine);
                    Rank rank = new Rank(communicator, partition.tokens(communicator.rank()))) {
                body.run(rank, new KcpConv1d("layer0", ConvOptions.DEFAULT), context);
                return null;
            }
        });
    }

    /** One rank's tensors. */
    private static final class Rank implements AutoCloseable {
        final ConvCase in;
        final Tensor dy;
        final Tensor y;
        final Tensor dx;

        Rank(Communicator communicator, int tokens) {
            in = ConvCase.random(communicator.rank(), 16, tokens);
            dy = in.dy();
            y = Tensor.zeros(DType.BF16, tokens, 16);
            dx = Tensor.zeros(DType.BF16, tokens, 16);
        }

        Saved forward(KcpConv1d conv, KcpContext context) {
            return conv.forward(context, in.x(), in.weight(), null, y, null);
        }

        void step(KcpConv1d conv, KcpContext context) {
            try (Saved saved = forward(conv, context)) {
                conv.backward(saved, dy, dx).close();
            }
        }

        Tensor copy(Tensor from) {
            Tensor to = Tensor.zeros(from.dtype(), from.rows(), from.columns());
            to.segment().copyFrom(from.segment());
            return to;
        }

        @Override
        public void close() {
            in.close();
            y.close();
            dx.close();
        }
    }
}
