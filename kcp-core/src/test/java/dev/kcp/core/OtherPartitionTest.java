package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.HostAndPort;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.StoreServer;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** One rank cuts the batch otherwise, while the others are inside calls and never come to compare. */
class OtherPartitionTest {
    private static final CuSeqlens BATCH = CuSeqlens.ofLengths(9, 15);

    /** A rank's part of a test. */
    private interface Body {
        void run(Communicator communicator) throws Exception;
    }

    /** What every rank ended with; a rank that the deadline has to end says so. */
    private static List<String> ends(String transport, int ranks, Body body) throws Exception {
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "secret");
                ExecutorService threads = Executors.newFixedThreadPool(ranks)) {
            List<Communicator> local =
                    transport.equals("local") ? LocalCommunicator.group(ranks, Eventually.LIMIT) : List.of();
            HostAndPort place = new HostAndPort("127.0.0.1", store.port());
            List<Future<String>> ends = IntStream.range(0, ranks)
                    .mapToObj(rank -> threads.submit(() -> {
                        RankInfo me = new RankInfo(rank, rank, ranks, ranks, null, 0, place, "job", "secret");
                        try (Communicator communicator =
                                local.isEmpty() ? TcpCommunicator.join(me, Eventually.LIMIT) : local.get(rank)) {
                            body.run(communicator);
                            return "not told";
                        } catch (KcpException e) {
                            return e.code() + ": " + e.getMessage();
                        }
                    }))
                    .toList();
            return ends.stream().map(OtherPartitionTest::get).toList();
        }
    }

    private static String get(Future<String> future) {
        try {
            return future.get();
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    private static KcpContext context(Communicator communicator, ConvEngine engine, Layout layout) {
        return new KcpContext(Partition.of(layout, BATCH, communicator.size(), 1), communicator, engine);
    }

    /** Forward and backward of one layer. */
    private static void step(KcpContext context) {
        int tokens = context.localTokens();
        KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);
        try (Tensor x = Tensor.zeros(DType.BF16, tokens, 8);
                Tensor weight = Tensor.zeros(DType.F32, 8, 4);
                Tensor y = Tensor.zeros(DType.BF16, tokens, 8);
                Saved saved = conv.forward(context, x, weight, null, y, null);
                PartialGradients sums = conv.backward(saved, x, y)) {
            conv.reduceGradients(List.of(sums), DType.F32).close();
        }
    }

    /** The usual slip: a rank sees another batch and cuts it anew, where the others go on with the context they have. */
    @ParameterizedTest
    @CsvSource({"local, 2, 0", "local, 3, 2", "tcp, 3, 1"})
    void aRankThatWaitsForAContextWhichOthersDoNotMake(String transport, int ranks, int culprit) throws Exception {
        List<String> ends = ends(transport, ranks, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext usual = context(communicator, engine, Layout.CONTIGUOUS)) {
                step(usual);
                if (communicator.rank() == culprit) {
                    try (KcpContext other = context(communicator, engine, Layout.ZIGZAG)) {
                        step(other);
                    }
                } else {
                    step(usual);
                    communicator.barrier("end");
                }
            }
        });
        assertThat(ends).allMatch(end -> end.equals(ends.getFirst()), ends.getFirst());
        assertThat(ends.getFirst())
                .startsWith("DISAGREEMENT: ranks disagree on call ")
                .contains("makes HALO_FORWARD \"layer0 FORWARD\" channels=8 ")
                .contains("rank " + culprit + " first waits for batch 1 of group world, of which ranks [");
    }

    @ParameterizedTest
    @CsvSource({"local, 3", "tcp, 2"})
    void aRankInsideACallIsToldThatContextsDiffer(String transport, int ranks) throws Exception {
        CountDownLatch told = new CountDownLatch(ranks - 1);
        List<String> ends = ends(transport, ranks, communicator -> {
            boolean odd = communicator.rank() == ranks - 1;
            try (ConvEngine engine = new CpuConvEngine(1);
                    KcpContext context = context(communicator, engine, odd ? Layout.ZIGZAG : Layout.CONTIGUOUS)) {
                if (odd) {
                    told.await();
                    step(context);
                } else {
                    communicator.barrier("before the step");
                }
            } finally {
                told.countDown();
            }
        });
        assertThat(ends).allMatch(end -> end.equals(ends.getFirst()), ends.getFirst());
        assertThat(ends.getFirst()).startsWith("DISAGREEMENT: ranks disagree on batch 0 of group world: rank 0 means ");
    }

    /** Who prepares the next batch on another thread may wait there, however long the others' other threads take. */
    @ParameterizedTest
    @CsvSource({"local", "tcp"})
    void anotherThreadMayWaitWhileCallsGoOn(String transport) throws Exception {
        List<String> ends = ends(transport, 2, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    ExecutorService ahead = Executors.newSingleThreadExecutor();
                    KcpContext now = context(communicator, engine, Layout.CONTIGUOUS)) {
                step(now);
                Future<?> next = ahead.submit(() -> {
                    if (communicator.rank() == 1) {
                        Thread.sleep(2500);
                    }
                    try (KcpContext prepared = context(communicator, engine, Layout.ZIGZAG)) {
                        prepared.awaitAgreement();
                    }
                    return null;
                });
                if (communicator.rank() == 0) {
                    Thread.sleep(2000);
                }
                communicator.barrier("meanwhile");
                next.get();
                step(now);
            }
        });
        assertThat(ends).containsOnly("not told");
    }
}
