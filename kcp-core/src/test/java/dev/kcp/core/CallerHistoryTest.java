package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
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
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Documents whose first tokens were in an earlier batch, against the joined documents on one rank: each document's history
 * rows and tokens end to end, with zeros for dy of the history rows.
 */
class CallerHistoryTest {
    /** A joined batch and how it is parted. */
    private record Joined(ConvCase all, int[] lengths, int[] history) implements AutoCloseable {
        static Joined random(Random random, int[] lengths) {
            int[] history = new int[lengths.length];
            int[] joined = new int[lengths.length];
            for (int d = 0; d < lengths.length; d++) {
                history[d] = random.nextInt(4);
                joined[d] = lengths[d] + history[d];
            }
            DType bias = random.nextBoolean() ? DType.BF16 : null;
            ConvCase all = ConvCase.random(random.nextLong(), 8 * (1 + random.nextInt(3)), DType.F32, bias, joined);
            for (int d = 0; d < lengths.length; d++) {
                for (int row = all.begin(d); row < all.begin(d) + history[d]; row++) {
                    for (int c = 0; c < all.channels(); c++) {
                        ConvCase.set(all.dy(), row, c, 0);
                    }
                }
            }
            return new Joined(all, lengths, history);
        }

        /** The rows of this batch, of a tensor of the joined one. */
        Tensor batch(Tensor joined) {
            int tokens = java.util.Arrays.stream(lengths).sum();
            Tensor rows = Tensor.zeros(DType.BF16, tokens, all.channels());
            int to = 0;
            for (int d = 0; d < lengths.length; d++) {
                copy(joined, all.begin(d) + history[d], rows, to, lengths[d]);
                to += lengths[d];
            }
            return rows;
        }

        /** Each document's history rows, the invalid ones filled with bytes that must not matter. */
        Tensor initial(Tensor joined, byte filler) {
            Tensor rows = Tensor.zeros(DType.BF16, lengths.length, 3, all.channels());
            rows.segment().fill(filler);
            for (int d = 0; d < lengths.length; d++) {
                copy(joined, all.begin(d), rows, 3L * d + 3 - history[d], history[d]);
            }
            return rows;
        }

        /** The last three rows of each joined document, zeros before it. */
        Tensor last() {
            Tensor rows = Tensor.zeros(DType.BF16, lengths.length, 3, all.channels());
            for (int d = 0; d < lengths.length; d++) {
                int count = Math.min(3, history[d] + lengths[d]);
                copy(all.x(), all.begin(d) + history[d] + lengths[d] - count, rows, 3L * d + 3 - count, count);
            }
            return rows;
        }

        static void copy(Tensor from, long begin, Tensor to, long toBegin, long count) {
            if (count > 0) {
                HostMemory.copy(
                        from.rowAddress(begin),
                        to.rowAddress(toBegin),
                        count * from.columns() * from.dtype().bytes());
            }
        }

        @Override
        public void close() {
            all.close();
        }
    }

    private static int owner(Partition partition, int document, boolean first) {
        CuSeqlens cuSeqlens = partition.cuSeqlens();
        if (cuSeqlens.length(document) == 0) {
            return 0;
        }
        return partition
                .placeOf(first ? cuSeqlens.begin(document) : cuSeqlens.end(document) - 1)
                .rank();
    }

    private static void onRank(
            Communicator communicator, Partition partition, Joined joined, ConvOptions options, Sharded expected) {
        int rank = communicator.rank();
        int tokens = partition.tokens(rank);
        ConvCase all = joined.all();
        HistoryCounts counts = HistoryCounts.of(joined.history());
        boolean some = !counts.isNone();
        try (ConvEngine engine = new CpuConvEngine(1);
                KcpContext context = new KcpContext(partition, counts, communicator, engine, null);
                Tensor x = Tensor.zeros(DType.BF16, tokens, all.channels());
                Tensor dy = Tensor.zeros(DType.BF16, tokens, all.channels());
                Tensor y = Tensor.zeros(DType.BF16, tokens, all.channels());
                Tensor dx = Tensor.zeros(DType.BF16, tokens, all.channels());
                Tensor batchX = joined.batch(all.x());
                Tensor batchDy = joined.batch(all.dy());
                Tensor packedY = Tensor.zeros(DType.BF16, batchX.rows(), all.channels());
                Tensor packedDx = Tensor.zeros(DType.BF16, batchX.rows(), all.channels());
                Tensor expectedY = joined.batch(expected.y());
                Tensor expectedDx = joined.batch(expected.dx());
                Tensor initial = some ? joined.initial(all.x(), (byte) 0x7F) : null;
                Tensor last = joined.last();
                Tensor finalRows = Tensor.zeros(DType.BF16, joined.lengths().length, 3, all.channels());
                Tensor dHistory = Tensor.zeros(DType.BF16, joined.lengths().length, 3, all.channels());
                Tensor expectedDHistory = joined.initial(expected.dx(), (byte) 0)) {
            Shards.take(partition, rank, batchX, x);
            Shards.take(partition, rank, batchDy, dy);
            KcpConv1d conv = new KcpConv1d("layer0", options);
            ConvArguments in = new ConvArguments(x, all.weight(), all.bias(), y, initial, finalRows);
            try (Saved saved = conv.forward(context, List.of(in), null)) {
                PartialGradients sums = conv.backward(saved, List.of(new ConvGradients(dy, dx, dHistory)))
                        .getFirst();
                Gradients reduced = conv.reduceGradients(List.of(sums), DType.F32);
                Tolerance.assertSums(
                        reduced.dweight(), reduced.dbias(), ReferenceConv.run(all, options.policy()), options.policy());
                reduced.close();
                sums.close();
            }
            Shards.gather(communicator, partition, "y", y, rank == 0 ? packedY : null);
            Shards.gather(communicator, partition, "dx", dx, rank == 0 ? packedDx : null);
            if (rank == 0) {
                assertSameBits("y", packedY, expectedY);
                assertSameBits("dx", packedDx, expectedDx);
            }
            for (int d = 0; d < joined.lengths().length; d++) {
                if (owner(partition, d, false) == rank) {
                    assertSameBits("finalHistory", finalRows.rows(3L * d, 3L * d + 3), last.rows(3L * d, 3L * d + 3));
                }
                if (joined.history()[d] > 0 && joined.lengths()[d] > 0 && owner(partition, d, true) == rank) {
                    assertSameBits(
                            "dHistory", dHistory.rows(3L * d, 3L * d + 3), expectedDHistory.rows(3L * d, 3L * d + 3));
                }
            }
        }
    }

    private static void assertJoined(Random random, Partition partition, int[] lengths, SiluGradPolicy policy) {
        ConvOptions options = ConvOptions.DEFAULT.withPolicy(policy);
        try (Joined joined = Joined.random(random, lengths);
                Sharded expected = Sharded.alone(joined.all(), options)) {
            LocalRanks.run(partition.ranks(), Sharded.DEADLINE, communicator -> {
                onRank(communicator, partition, joined, options, expected);
                return null;
            });
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4})
    void randomGeometryHasTheBitsOfTheJoinedDocuments(long seed) {
        Random random = new Random(seed);
        for (int trial = 0; trial < 15; trial++) {
            int[] lengths = Geometry.lengths(random);
            Partition partition = Geometry.partition(random, CuSeqlens.ofLengths(lengths), 1 + random.nextInt(6));
            assertJoined(random, partition, lengths, SiluGradPolicy.values()[trial % 2]);
        }
    }

    /** The caller's rows pass the first fragments by and are read by those after them. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5})
    void fragmentsOfOneTokenEach(int tokens) {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(tokens), tokens, 1);
        for (int trial = 0; trial < 4; trial++) {
            assertJoined(new Random(trial), partition, new int[] {tokens}, SiluGradPolicy.FP32);
        }
    }

    @Test
    void documentsWithoutTokensKeepTheirHistory() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(0, 0), 2, 1);
        for (int trial = 0; trial < 4; trial++) {
            assertJoined(new Random(trial), partition, new int[] {0, 0}, SiluGradPolicy.BF16);
        }
    }

    /** Case 10: last rows of documents of every length modulo 8, around the sizes of tasks. */
    @ParameterizedTest
    @ValueSource(ints = {128, 1024})
    void case10LastRowsAroundTaskSizes(int around) {
        int[] lengths = java.util.stream.IntStream.range(around - 4, around + 4).toArray();
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(lengths), 3, 1);
        assertJoined(new Random(around), partition, lengths, SiluGradPolicy.BF16);
    }

    /** One document in three batches: each batch's last rows are the next one's history. */
    @Test
    void lastRowsOfABatchAreTheHistoryOfTheNext() {
        int[] cuts = {0, 2, 60, 131};
        try (ConvCase all = ConvCase.random(4, 16, 131);
                Sharded expected = Sharded.alone(all, ConvOptions.DEFAULT)) {
            LocalRanks.run(3, Sharded.DEADLINE, communicator -> {
                int rank = communicator.rank();
                Tensor history = Tensor.zeros(DType.BF16, 1, 3, 16);
                for (int batch = 0; batch < 3; batch++) {
                    int length = cuts[batch + 1] - cuts[batch];
                    Partition partition = Partition.of(Layout.ZIGZAG, CuSeqlens.ofLengths(length), 3, 1);
                    HistoryCounts counts = HistoryCounts.of(Math.min(3, cuts[batch]));
                    try (ConvEngine engine = new CpuConvEngine(1);
                            KcpContext context = new KcpContext(partition, counts, communicator, engine, null);
                            Tensor x = Tensor.zeros(DType.BF16, partition.tokens(rank), 16);
                            Tensor y = Tensor.zeros(DType.BF16, partition.tokens(rank), 16);
                            Tensor packedY = Tensor.zeros(DType.BF16, length, 16)) {
                        Shards.take(partition, rank, all.x().rows(cuts[batch], cuts[batch + 1]), x);
                        Tensor next = Tensor.zeros(DType.BF16, 1, 3, 16);
                        Tensor initial = counts.isNone() ? null : history;
                        ConvArguments in = new ConvArguments(x, all.weight(), null, y, initial, next);
                        new KcpConv1d("layer0", ConvOptions.DEFAULT)
                                .forward(context, List.of(in), null)
                                .close();
                        history = shared(communicator, next, owner(partition, 0, false));
                        Shards.gather(communicator, partition, "y", y, rank == 0 ? packedY : null);
                        if (rank == 0) {
                            assertSameBits("y", packedY, expected.y().rows(cuts[batch], cuts[batch + 1]));
                        }
                    }
                }
                return null;
            });
        }
    }

    /** The owner's rows, on every rank. */
    private static Tensor shared(Communicator communicator, Tensor rows, int owner) {
        byte[] mine = rows.segment().toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
        byte[] theirs = communicator.allGather("last rows", mine).get(owner);
        java.lang.foreign.MemorySegment.copy(
                theirs, 0, rows.segment(), java.lang.foreign.ValueLayout.JAVA_BYTE, 0, theirs.length);
        return rows;
    }

    @Test
    void wrongHistoriesAreRefused() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> HistoryCounts.of(0, 4))
                .withMessageContaining("document=1 rows=4");
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(4, 4), 1, 1);
        assertThatThrownBy(() -> withHistory(partition, HistoryCounts.of(1), 2))
                .hasMessageContaining("counts=1 documents=2");
        assertThatThrownBy(() -> withHistory(partition, HistoryCounts.of(1, 0), 0))
                .hasMessageContaining("initialHistory=null");
        assertThatThrownBy(() -> withHistory(partition, HistoryCounts.NONE, 2)).hasMessageContaining("initialHistory=");
        assertThatThrownBy(() -> withHistory(partition, HistoryCounts.of(1, 0), 3))
                .hasMessageContaining("documents=2")
                .hasMessageContaining("[3, 3, 8]");
    }

    private static void withHistory(Partition partition, HistoryCounts counts, int documents) {
        LocalRanks.run(1, Sharded.DEADLINE, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = new KcpContext(partition, counts, communicator, engine, null);
                    ConvCase in = ConvCase.random(1, 8, 4, 4)) {
                Tensor history = documents == 0 ? null : Tensor.zeros(DType.BF16, documents, 3, 8);
                ConvArguments one = new ConvArguments(in.x(), in.weight(), null, in.dy(), history, null);
                return new KcpConv1d("layer0", ConvOptions.DEFAULT).forward(context, List.of(one), null);
            }
        });
    }

    /** The digest tells counts apart, so ranks that differ in them are told. */
    @Test
    void ranksWithOtherCountsAreTold() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(4, 4), 2, 1);
        assertThatThrownBy(() -> LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
                    HistoryCounts counts = HistoryCounts.of(1, communicator.rank());
                    try (ConvEngine engine = new CpuConvEngine(1);
                            KcpContext context = new KcpContext(partition, counts, communicator, engine, null)) {
                        assertThat(context.history()).isEqualTo(counts);
                        context.awaitAgreement();
                        return null;
                    }
                }))
                .hasMessageContaining("ranks disagree on batch 0");
    }
}
