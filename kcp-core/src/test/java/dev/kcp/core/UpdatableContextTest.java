package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** One context that is given batch after batch, against a batch's own. */
class UpdatableContextTest {
    private static final int CHANNELS = 16;
    private static final int TOKENS = 203;

    /** Documents of a batch with a fixed number of tokens, among them many of 0 to 3. */
    static int[] lengths(Random random, int tokens) {
        List<Integer> lengths = new ArrayList<>();
        for (int left = tokens; left > 0; ) {
            int length = Math.min(left, random.nextInt(3) > 0 ? random.nextInt(5) : random.nextInt(tokens));
            lengths.add(length);
            left -= length;
        }
        return lengths.stream().mapToInt(Integer::intValue).toArray();
    }

    @ParameterizedTest
    @CsvSource({"CONTIGUOUS,1", "CONTIGUOUS,2", "CONTIGUOUS,5", "ZIGZAG,1", "ZIGZAG,2", "ZIGZAG,3"})
    void everyBatchHasTheBitsOfItsOwnContext(Layout layout, int ranks) {
        Random random = new Random(5);
        List<ConvCase> cases = new ArrayList<>();
        List<Partition> partitions = new ArrayList<>();
        for (int batch = 0; batch < 12; batch++) {
            int[] lengths = lengths(random, TOKENS);
            cases.add(ConvCase.random(batch, CHANNELS, lengths));
            partitions.add(Partition.of(layout, CuSeqlens.ofLengths(lengths), ranks, 1));
        }
        List<List<Sharded>> ofRanks = LocalRanks.run(ranks, Sharded.DEADLINE, communicator -> {
            List<Sharded> results = new ArrayList<>();
            try (CpuConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = KcpContext.updatable(partitions.getFirst(), TOKENS, communicator, engine)) {
                KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);
                long sent = 0;
                for (int batch = 0; batch < cases.size(); batch++) {
                    if (batch > 0) {
                        context.update(partitions.get(batch));
                    }
                    results.add(run(conv, context, cases.get(batch)));
                    long now = communicator.stats().bytesSent(Call.Kind.HALO_FORWARD);
                    assertThat(now - sent)
                            .as("bytes are the same whatever the documents")
                            .isEqualTo(batch == 0 ? now : sent / batch);
                    sent = now;
                }
            }
            return results;
        });
        for (int batch = 0; batch < cases.size(); batch++) {
            try (Sharded expected = Sharded.alone(cases.get(batch), ConvOptions.DEFAULT);
                    Sharded own = Sharded.over(partitions.get(batch), cases.get(batch), ConvOptions.DEFAULT, false)) {
                Sharded got = ofRanks.getFirst().get(batch);
                assertSameBits("y of batch " + batch, got.y(), expected.y());
                assertSameBits("dx of batch " + batch, got.dx(), expected.dx());
                assertSameBits("dweight of batch " + batch, got.dweight(), own.dweight());
            }
        }
        cases.forEach(ConvCase::close);
        ofRanks.forEach(results -> results.forEach(Sharded::close));
    }

    private static Sharded run(KcpConv1d conv, KcpContext context, ConvCase in) {
        int rank = context.communicator().rank();
        int tokens = context.localTokens();
        Tensor y = rank == 0 ? Tensor.zeros(DType.BF16, in.rows(), CHANNELS) : null;
        Tensor dx = rank == 0 ? Tensor.zeros(DType.BF16, in.rows(), CHANNELS) : null;
        try (Tensor x = Tensor.zeros(DType.BF16, tokens, CHANNELS);
                Tensor dy = Tensor.zeros(DType.BF16, tokens, CHANNELS);
                Tensor yLocal = Tensor.zeros(DType.BF16, tokens, CHANNELS);
                Tensor dxLocal = Tensor.zeros(DType.BF16, tokens, CHANNELS)) {
            Shards.take(context.partition(), rank, in.x(), x);
            Shards.take(context.partition(), rank, in.dy(), dy);
            try (Saved saved = conv.forward(context, x, in.weight(), null, yLocal, null);
                    PartialGradients sums = conv.backward(saved, dy, dxLocal)) {
                Gradients reduced = conv.reduceGradients(List.of(sums), DType.F32);
                Shards.gather(context.communicator(), context.partition(), "y", yLocal, y);
                Shards.gather(context.communicator(), context.partition(), "dx", dxLocal, dx);
                return new Sharded(y, dx, reduced.dweight(), null, ExchangeCounts.NONE);
            }
        }
    }

    @Test
    void otherCutsTooManyDocumentsAndPlainContextsAreRefusedBeforeAnyEffect() {
        LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
            Partition first = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(50, 50), 2, 1);
            Partition longer = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(50, 52), 2, 1);
            Partition zigzag = Partition.of(Layout.ZIGZAG, CuSeqlens.ofLengths(50, 50), 2, 1);
            Partition many = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(25, 25, 25, 25), 2, 1);
            try (CpuConvEngine engine = new CpuConvEngine(1);
                    KcpContext plain = new KcpContext(first, communicator, engine);
                    KcpContext context = KcpContext.updatable(first, 3, communicator, engine)) {
                assertThatThrownBy(() -> plain.update(first)).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(() -> context.update(longer))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContaining("tokens=102 of=100");
                assertThatThrownBy(() -> context.update(zigzag)).isInstanceOf(IllegalArgumentException.class);
                assertThatThrownBy(() -> context.update(many)).hasMessageContaining("documents=4 room=3");
                context.awaitAgreement();
                assertThat(context.partition()).isEqualTo(first);
            }
            return null;
        });
    }

    @Test
    void ranksThatUpdateToDifferentBatchesAreToldSo() {
        assertThatThrownBy(() -> LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
                    Partition first = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(50, 50), 2, 1);
                    Partition next = Partition.of(
                            Layout.CONTIGUOUS,
                            CuSeqlens.ofLengths(40 + communicator.rank(), 60 - communicator.rank()),
                            2,
                            1);
                    try (CpuConvEngine engine = new CpuConvEngine(1);
                            KcpContext context = KcpContext.updatable(first, 3, communicator, engine)) {
                        context.update(next);
                        context.awaitAgreement();
                    }
                    return null;
                }))
                .isInstanceOfSatisfying(
                        KcpException.class, e -> assertThat(e.code()).isEqualTo(KcpException.Code.DISAGREEMENT));
    }

    @Test
    void whatTheBatchBeforeSavedHasNoBackward() {
        LocalRanks.run(1, Sharded.DEADLINE, communicator -> {
            Partition first = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(20), 1, 1);
            Partition next = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(9, 11), 1, 1);
            try (CpuConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = KcpContext.updatable(first, 3, communicator, engine);
                    ConvCase in = ConvCase.random(1, CHANNELS, 20);
                    Tensor y = Tensor.zeros(DType.BF16, 20, CHANNELS)) {
                KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);
                try (Saved saved = conv.forward(context, in.x(), in.weight(), null, y, null)) {
                    context.update(next);
                    assertThatThrownBy(() -> conv.backward(saved, in.dy(), y))
                            .isInstanceOf(IllegalStateException.class)
                            .hasMessageContaining("savedAtUpdate=0 contextUpdates=1");
                }
            }
            return null;
        });
    }

    @Test
    void anEntryOfTheBatchBeforeIsNotBound() {
        LocalRanks.run(1, Sharded.DEADLINE, communicator -> {
            Partition first = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(20), 1, 1);
            Partition next = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(9, 11), 1, 1);
            RecomputeHandle handle = RecomputeHandle.create();
            try (CpuConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = KcpContext.updatable(first, 3, communicator, engine);
                    ConvCase in = ConvCase.random(1, CHANNELS, 20);
                    Tensor y = Tensor.zeros(DType.BF16, 20, CHANNELS);
                    Checkpoint region = Checkpoint.of(handle)) {
                KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);
                region.forward(() -> conv.forward(context, in.x(), in.weight(), null, y, handle))
                        .close();
                context.update(next);
                assertThatThrownBy(() ->
                                region.recompute(() -> conv.forward(context, in.x(), in.weight(), null, y, handle)))
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining("entryOfUpdate=0 contextUpdates=1");
            }
            return null;
        });
    }
}
