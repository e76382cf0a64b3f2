package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

/** What a rank means by its context is compared with what all others mean, before rows move. */
class AgreementTest {
    private static final CuSeqlens BATCH = CuSeqlens.ofLengths(9, 7);

    /** What every rank ended with: its result's text or its failure. */
    private static List<String> onRanks(int ranks, Duration deadline, Function<Communicator, String> body) {
        List<Communicator> group = LocalCommunicator.group(ranks, deadline);
        try (ExecutorService threads = Executors.newFixedThreadPool(ranks)) {
            List<Future<String>> ends = new ArrayList<>();
            for (Communicator communicator : group) {
                ends.add(threads.submit(() -> {
                    try (communicator) {
                        return body.apply(communicator);
                    } catch (KcpException e) {
                        return e.code() + ": " + e.getMessage();
                    }
                }));
            }
            return ends.stream().map(AgreementTest::get).toList();
        }
    }

    private static <T> T get(Future<T> future) {
        try {
            return future.get();
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    private static String agree(Communicator communicator, Partition partition) {
        try (ConvEngine engine = new CpuConvEngine(1);
                KcpContext context = new KcpContext(partition, communicator, engine)) {
            context.awaitAgreement();
            context.awaitAgreement();
            return "agreed";
        }
    }

    @Test
    void everyRankIsToldTheSameOfTheOneThatDiffers() {
        List<String> ends = onRanks(4, Sharded.DEADLINE, communicator -> {
            Layout layout = communicator.rank() == 2 ? Layout.ZIGZAG : Layout.CONTIGUOUS;
            return agree(communicator, Partition.of(layout, BATCH, 4, 1));
        });
        String usual =
                Long.toHexString(Partition.of(Layout.CONTIGUOUS, BATCH, 4, 1).digest());
        String odd = Long.toHexString(Partition.of(Layout.ZIGZAG, BATCH, 4, 1).digest());
        assertThat(ends).allMatch(end -> end.equals(ends.getFirst()));
        assertThat(ends.getFirst())
                .startsWith("DISAGREEMENT: ranks disagree on batch 0 of group world: ")
                .contains("rank 0 means plan=" + usual, "rank 3 means plan=" + usual, "rank 2 means plan=" + odd);
    }

    @Test
    void theFirstExchangeFindsTheDifferenceByItself() {
        List<String> ends = onRanks(2, Sharded.DEADLINE, communicator -> {
            CuSeqlens batch = communicator.rank() == 0 ? BATCH : CuSeqlens.ofLengths(7, 9);
            Partition partition = Partition.of(Layout.CONTIGUOUS, batch, 2, 1);
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = new KcpContext(partition, communicator, engine);
                    ConvCase in = ConvCase.random(1, 8, 8);
                    Tensor y = Tensor.zeros(DType.BF16, 8, 8)) {
                new KcpConv1d("layer0", ConvOptions.DEFAULT).forward(context, in.x(), in.weight(), null, y, null);
                return "not told";
            }
        });
        assertThat(ends).allMatch(end -> end.startsWith("DISAGREEMENT: ranks disagree on batch 0"));
    }

    @Test
    void ranksThatSayNothingAreNamedAtTheDeadline() {
        CountDownLatch over = new CountDownLatch(2);
        CountDownLatch together = new CountDownLatch(3);
        List<String> ends = onRanks(3, Duration.ofSeconds(3), communicator -> {
            try {
                together.countDown();
                together.await();
                if (communicator.rank() == 1) {
                    over.await();
                }
                return agree(communicator, Partition.of(Layout.CONTIGUOUS, BATCH, 3, 1));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            } finally {
                over.countDown();
            }
        });
        assertThat(ends).allMatch(end -> end.startsWith("DEADLINE: ") && end.contains("silentRanks=[1]"));
    }

    @Test
    void aRankThatLeftIsNamed() {
        List<String> ends = onRanks(2, Sharded.DEADLINE, communicator -> {
            if (communicator.rank() == 1) {
                return "left";
            }
            return agree(communicator, Partition.of(Layout.CONTIGUOUS, BATCH, 2, 1));
        });
        assertThat(ends.getFirst()).isEqualTo("RANK_FAILED: rank 1 left before it knew batch 0 of group world");
    }

    /** The next batch's context is built on another thread while this one's exchanges run. */
    @Test
    void contextsArePreparedAheadByAnotherThread() {
        int batches = 40;
        List<String> ends = onRanks(3, Sharded.DEADLINE, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    ExecutorService ahead = Executors.newSingleThreadExecutor()) {
                Future<KcpContext> next = CompletableFuture.completedFuture(context(communicator, engine, 0));
                KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);
                for (int batch = 0; batch < batches; batch++) {
                    try (KcpContext now = get(next)) {
                        int following = batch + 1;
                        next = ahead.submit(() -> context(communicator, engine, following));
                        int tokens = now.localTokens();
                        try (Tensor x = Tensor.zeros(DType.BF16, tokens, 8);
                                Tensor weight = Tensor.zeros(DType.F32, 8, 4);
                                Tensor y = Tensor.zeros(DType.BF16, tokens, 8);
                                Saved saved = conv.forward(now, x, weight, null, y, null)) {
                            conv.backward(saved, x, y).close();
                        }
                    }
                }
                get(next).close();
                return "exchanges=" + conv.exchanges().forward();
            }
        });
        assertThat(ends).containsOnly("exchanges=" + batches);
    }

    private static KcpContext context(Communicator communicator, ConvEngine engine, int batch) {
        CuSeqlens lengths = CuSeqlens.ofLengths(3 + batch, 50, 1 + batch % 5);
        return new KcpContext(Partition.of(Layout.ZIGZAG_PER_DOCUMENT, lengths, 3, 1), communicator, engine);
    }

    @Test
    void aContextOfAFailedOrClosedGroupIsRefused() {
        onRanks(1, Sharded.DEADLINE, communicator -> {
            Partition partition = Partition.of(Layout.CONTIGUOUS, BATCH, 1, 1);
            communicator.close();
            assertThatThrownBy(() -> agree(communicator, partition)).isInstanceOf(IllegalStateException.class);
            return "";
        });
        List<String> ends = onRanks(1, Sharded.DEADLINE, communicator -> {
            communicator.abort("over");
            return agree(communicator, Partition.of(Layout.CONTIGUOUS, BATCH, 1, 1));
        });
        assertThat(ends).containsExactly("RANK_FAILED: rank 0 failed: over");
    }
}
