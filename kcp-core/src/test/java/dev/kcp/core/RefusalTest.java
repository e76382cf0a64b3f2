package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** One rank makes a wrong call where the other makes the right one: the first is refused, the other is told and ends. */
@Timeout(60)
class RefusalTest {
    private static final int CHANNELS = 1024;
    private static final int TOKENS = 8;

    /** One rank's half of a document of 16 tokens. */
    private static final class Rank implements AutoCloseable {
        final List<Tensor> owned = new ArrayList<>();
        final Communicator communicator;
        final CpuConvEngine engine = new CpuConvEngine(1);
        final Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(2 * TOKENS), 2, 1);
        final KcpContext context;
        final KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);
        final Tensor x = rows();
        final Tensor y = rows();
        final Tensor dx = rows();
        final Tensor weight = own(Tensor.zeros(DType.F32, CHANNELS, 4));
        final Tensor bias = own(Tensor.zeros(DType.F32, CHANNELS));

        Rank(Communicator communicator) {
            this.communicator = communicator;
            context = new KcpContext(partition, communicator, engine);
        }

        Tensor own(Tensor tensor) {
            owned.add(tensor);
            return tensor;
        }

        Tensor rows() {
            return own(Tensor.zeros(DType.BF16, TOKENS, CHANNELS));
        }

        Saved forward() {
            return conv.forward(context, x, weight, bias, y);
        }

        PartialGradients sums() {
            try (Saved saved = forward()) {
                return conv.backward(saved, y, dx);
            }
        }

        void isWrong(boolean wrong, Runnable mistake, Runnable right) {
            (wrong ? mistake : right).run();
        }

        @Override
        public void close() {
            context.close();
            engine.close();
            owned.forEach(Tensor::close);
        }
    }

    /** A collective call, made wrongly by one rank. */
    private interface Mistake {
        void make(Rank rank, boolean isWrong);
    }

    private static Arguments wrong(String name, Class<?> type, String text, Mistake mistake) {
        return Arguments.of(name, type, text, mistake);
    }

    private static Arguments forward(String name, String text, java.util.function.Function<Rank, ConvArguments> wrong) {
        return wrong(
                name,
                IllegalArgumentException.class,
                text,
                (rank, isWrong) -> rank.isWrong(
                        isWrong,
                        () -> rank.conv.forward(rank.context, List.of(wrong.apply(rank)), null),
                        rank::forward));
    }

    private static Arguments backward(
            String name, String text, java.util.function.Function<Rank, ConvGradients> wrong) {
        return wrong(name, IllegalArgumentException.class, text, (rank, isWrong) -> {
            Saved saved = rank.forward();
            rank.conv.backward(saved, List.of(isWrong ? wrong.apply(rank) : new ConvGradients(rank.y, rank.dx, null)));
        });
    }

    private static Arguments sums(
            String name, Class<?> type, String text, java.util.function.Function<Rank, List<PartialGradients>> wrong) {
        return wrong(name, type, text, (rank, isWrong) -> {
            PartialGradients sums = rank.sums();
            List<PartialGradients> other = wrong.apply(rank);
            rank.communicator.barrier("made");
            rank.conv.reduceGradients(isWrong ? other : List.of(sums), DType.F32);
        });
    }

    private static PartialGradients sumsOf(KcpConv1d call, KcpContext context, Rank rank) {
        try (Saved saved = call.forward(context, rank.x, rank.weight, rank.bias, rank.y)) {
            return call.backward(saved, rank.y, rank.dx);
        }
    }

    private static Tensor unaligned(Rank rank) {
        Tensor room = rank.own(Tensor.zeros(DType.BF16, TOKENS * CHANNELS + 8));
        return Tensor.over(
                Memory.borrow(Device.CPU, room.address() + 2, room.elements() * 2 - 2), DType.BF16, TOKENS, CHANNELS);
    }

    static Stream<Arguments> mistakes() {
        Class<?> argument = IllegalArgumentException.class;
        Class<?> lifetime = IllegalStateException.class;
        return Stream.of(
                forward("y over x", "y overlaps x", r -> ConvArguments.of(r.x, r.weight, r.bias, r.x)),
                forward(
                        "finalHistory over y",
                        "finalHistory overlaps y",
                        r -> new ConvArguments(
                                r.x,
                                r.weight,
                                r.bias,
                                r.y,
                                null,
                                Tensor.over(
                                        Memory.borrow(Device.CPU, r.y.address(), 3L * 2 * CHANNELS),
                                        DType.BF16,
                                        1,
                                        3,
                                        CHANNELS))),
                forward("x missing", "x=null", r -> ConvArguments.of(null, r.weight, r.bias, r.y)),
                forward("weight missing", "weight=null", r -> ConvArguments.of(r.x, null, r.bias, r.y)),
                forward("y missing", "y=null", r -> ConvArguments.of(r.x, r.weight, r.bias, null)),
                forward(
                        "x unaligned",
                        "x must start at a multiple of 16 bytes: address=0x",
                        r -> ConvArguments.of(unaligned(r), r.weight, r.bias, r.y)),
                wrong(
                        "arguments missing",
                        argument,
                        "call=layer0 arguments=null",
                        (rank, isWrong) -> rank.isWrong(
                                isWrong,
                                () -> rank.conv.forward(rank.context, (List<ConvArguments>) null, null),
                                rank::forward)),
                wrong("y of one tensor over y of another", argument, "y[1] overlaps y[0]", (rank, isWrong) -> {
                    ConvArguments one = ConvArguments.of(rank.x, rank.weight, rank.bias, rank.y);
                    ConvArguments two = isWrong ? one : ConvArguments.of(rank.x, rank.weight, null, rank.dx);
                    rank.conv.forward(rank.context, List.of(one, two), null);
                }),
                wrong("context missing in a later call", argument, "call=layer0 context=null", (rank, isWrong) -> {
                    rank.forward();
                    rank.communicator.barrier("first");
                    rank.conv.forward(isWrong ? null : rank.context, rank.x, rank.weight, rank.bias, rank.y);
                }),
                backward("dx over x", "dx overlaps x", r -> new ConvGradients(r.y, r.x, null)),
                backward("dx over dy", "dx overlaps dy", r -> new ConvGradients(r.dx, r.dx, null)),
                backward(
                        "dy unaligned",
                        "dy must start at a multiple of 16 bytes",
                        r -> new ConvGradients(unaligned(r), r.dx, null)),
                wrong("gradients missing", argument, "call=layer0 gradients[0]=null", (rank, isWrong) -> {
                    Saved saved = rank.forward();
                    rank.conv.backward(
                            saved,
                            isWrong
                                    ? Arrays.asList((ConvGradients) null)
                                    : List.of(new ConvGradients(rank.y, rank.dx, null)));
                }),
                wrong("saved missing", argument, "call=layer0 saved=null", (rank, isWrong) -> {
                    Saved saved = rank.forward();
                    rank.conv.backward(isWrong ? null : saved, rank.y, rank.dx);
                }),
                sums("sums missing", argument, "call=layer0 microSteps=null", r -> null),
                sums("one missing", argument, "microSteps[1]=null", r -> Arrays.asList(r.sums(), null)),
                sums("no sums", argument, "microSteps=0 call=layer0", r -> List.of()),
                sums(
                        "sums of another policy",
                        argument,
                        "sums of another call: sumsOf=layer0 policy=FP32 call=layer0 policy=BF16",
                        r -> List.of(
                                r.sums(),
                                sumsOf(
                                        new KcpConv1d("layer0", ConvOptions.DEFAULT.withPolicy(SiluGradPolicy.FP32)),
                                        r.context,
                                        r))),
                sums(
                        "sums of another policy first",
                        argument,
                        "sums of another call: sumsOf=layer0 policy=FP32 call=layer0 policy=BF16",
                        r -> List.of(
                                sumsOf(
                                        new KcpConv1d("layer0", ConvOptions.DEFAULT.withPolicy(SiluGradPolicy.FP32)),
                                        r.context,
                                        r),
                                r.sums())),
                sums(
                        "sums of another layer",
                        argument,
                        "sumsOf=layer1 policy=BF16",
                        r -> List.of(sumsOf(new KcpConv1d("layer1", ConvOptions.DEFAULT), r.context, r))),
                sums("sums of another communicator", argument, "sameCommunicator=false sameEngine=true", r -> {
                    Communicator other = r.communicator.split(0, r.communicator.rank());
                    return List.of(r.sums(), sumsOf(r.conv, new KcpContext(r.partition, other, r.engine), r));
                }),
                sums("closed sums", lifetime, "the sums were closed: call=layer0", r -> {
                    PartialGradients closed = r.sums();
                    closed.close();
                    return List.of(closed);
                }),
                sums("sums of a closed context", lifetime, "the context was closed: rank=", r -> {
                    KcpContext context = new KcpContext(r.partition, r.communicator, r.engine);
                    PartialGradients sums = sumsOf(r.conv, context, r);
                    context.close();
                    return List.of(sums);
                }),
                wrong(
                        "a type that gradients cannot have",
                        argument,
                        "dbiasType=null",
                        (rank, isWrong) ->
                                rank.conv.reduceGradients(List.of(rank.sums()), DType.F32, isWrong ? null : DType.F32)),
                wrong(
                        "rows of another rank's number",
                        argument,
                        "local=",
                        (rank, isWrong) -> Shards.gather(
                                rank.communicator,
                                rank.partition,
                                "rows",
                                isWrong ? rank.x.rows(0, 3) : rank.x,
                                rank.communicator.rank() == 0
                                        ? rank.own(Tensor.zeros(DType.BF16, 16, CHANNELS))
                                        : null)));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("mistakes")
    void isRefusedBeforeAnyExchangeAndThePeerIsTold(String name, Class<?> type, String text, Mistake mistake) {
        for (int culprit = 0; culprit < 2; culprit++) {
            int wrong = culprit;
            Queue<KcpException> told = new ConcurrentLinkedQueue<>();
            assertThatThrownBy(() -> LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
                        try (Rank rank = new Rank(communicator)) {
                            mistake.make(rank, communicator.rank() == wrong);
                            communicator.barrier("the peer must not end well");
                            return null;
                        } catch (KcpException e) {
                            told.add(e);
                            throw e;
                        }
                    }))
                    .isInstanceOf(type)
                    .hasMessageContaining(text);
            assertThat(told).singleElement().satisfies(e -> {
                assertThat(e.code()).isEqualTo(KcpException.Code.RANK_FAILED);
                assertThat(e.getMessage())
                        .startsWith("rank " + wrong + " failed: ")
                        .contains(text);
            });
        }
    }

    @Test
    void memoryWithoutAnAddressAndRanksOutsideThePartitionAreRefused() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new Segment(1, 0, 16))
                .withMessageEndingWith("address=0 bytes=16");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new Segment(1, Long.MAX_VALUE - 3, 16))
                .withMessageEndingWith("bytes=16");
        assertThat(new Segment(1, 0, 0).bytes()).isZero();
        try (Communicator alone = LocalCommunicator.group(1, Sharded.DEADLINE).getFirst();
                Tensor rows = Tensor.zeros(DType.BF16, 16, 8)) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> alone.allReduce("sum", DType.F32, 0, 4))
                    .withMessageEndingWith("address=0 bytes=16");
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> alone.allReduce("sum", DType.F64, 64, Long.MAX_VALUE / 4));
            Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(16), 2, 1);
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Shards.take(partition, 2, rows, rows))
                    .withMessageEndingWith("rank=2 ranks=2");
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Shards.take(partition, 0, rows, rows.rows(0, 8)))
                    .withMessageStartingWith("local overlaps packed");
            Tensor elsewhere = Tensor.over(
                    Memory.borrow(new Device(Device.Kind.CUDA, 0), 4096, rows.elements() * 2), DType.BF16, 16, 8);
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> Shards.put(partition, 0, rows.rows(0, 8), elsewhere))
                    .withMessageContaining("packed=");
        }
    }
}
