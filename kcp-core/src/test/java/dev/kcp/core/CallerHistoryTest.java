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
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Documents whose first tokens were in an earlier batch, against the joined documents on one rank. */
class CallerHistoryTest {
    private static void assertJoined(Random random, Partition partition, int[] lengths, SiluGradPolicy policy) {
        try (JoinedBatch joined = JoinedBatch.random(random, lengths)) {
            joined.assertParity(Sharded.ON_CPU, partition, ConvOptions.DEFAULT.withPolicy(policy));
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
                        history = shared(communicator, next, JoinedBatch.owner(partition, 0, false));
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
