package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.Segment;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.core.Saved;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Groups of GPUs that break: every rank ends soon, with the same reason, and the devices can be used again. */
@NeedsTwoGpus
class NcclFailureTest {
    private static final Duration DEADLINE = Duration.ofSeconds(2);
    private static final int CHANNELS = 64;

    /** Runs a body that must fail on every rank; gives the failures. */
    private static List<KcpException> failures(BiConsumer<NcclCommunicator, CudaConvEngine> body) {
        return failures(Route.DIRECT, body);
    }

    private static List<KcpException> failures(Route route, BiConsumer<NcclCommunicator, CudaConvEngine> body) {
        try (GpuRanks ranks = new GpuRanks(2, DEADLINE, route)) {
            Throwable first = catchThrowable(() -> ranks.run((communicator, engine) -> {
                body.accept(communicator, engine);
                return null;
            }));
            assertThat(first).as("the group fails").isNotNull();
            return List.of(first.getSuppressed()).stream()
                    .filter(KcpException.class::isInstance)
                    .map(KcpException.class::cast)
                    .toList();
        }
    }

    static void forward(NcclCommunicator communicator, CudaConvEngine engine, String label, int channels) {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(400), communicator.size(), 1);
        int tokens = partition.tokens(communicator.rank());
        try (KcpContext context = new KcpContext(partition, communicator, engine);
                Tensor x = engine.stream().zeros(DType.BF16, tokens, channels);
                Tensor weight = engine.stream().zeros(DType.F32, channels, 4);
                Tensor y = engine.allocate(DType.BF16, tokens, channels)) {
            Saved saved = new KcpConv1d(label, ConvOptions.DEFAULT).forward(context, x, weight, null, y, null);
            saved.close();
            communicator.synchronize();
        }
    }

    @Test
    void aRankThatThrowsEndsTheOthersWithItsReason() {
        List<KcpException> failures = failures((communicator, engine) -> {
            forward(communicator, engine, "layer0", CHANNELS);
            if (communicator.rank() == 1) {
                throw new IllegalArgumentException("no more data");
            }
            forward(communicator, engine, "layer0", CHANNELS);
        });
        assertThat(failures).isNotEmpty().allSatisfy(e -> {
            assertThat(e.code()).isEqualTo(KcpException.Code.RANK_FAILED);
            assertThat(e).hasMessageContaining("rank 1 failed").hasMessageContaining("no more data");
        });
    }

    /** NCCL's own abort waits for graphs that captured its calls; nobody who is to close one may wait for that. */
    @Test
    void aRankThatThrowsWhileAGraphIsAliveEndsTheOthersAllTheSame() {
        List<KcpException> failures = failures((communicator, engine) -> {
            CudaStream stream = engine.stream();
            Tensor rows = stream.zeros(DType.F32, 1, 64);
            Runnable sum = () -> communicator.allReduce("rows", DType.F32, rows.address(), 64);
            sum.run();
            NcclGraph graph = communicator.capture("sum", sum);
            graph.replay();
            communicator.synchronize();
            if (communicator.rank() == 1) {
                throw new IllegalArgumentException("no more data");
            }
            graph.replay();
            communicator.synchronize();
        });
        assertThat(failures).isNotEmpty().allSatisfy(e -> assertThat(e)
                .hasMessageContaining("rank 1 failed")
                .hasMessageContaining("no more data"));
    }

    @Test
    void otherChannelsAreADisagreementBeforeAnythingIsQueued() {
        List<KcpException> failures = failures((communicator, engine) ->
                forward(communicator, engine, "layer0", CHANNELS * (1 + communicator.rank())));
        assertThat(failures).hasSize(2).allSatisfy(e -> assertThat(e.code()).isEqualTo(KcpException.Code.DISAGREEMENT));
    }

    @Test
    void swappedCallsThatAreBothKnownAreADisagreement() {
        List<KcpException> failures = failures((communicator, engine) -> {
            forward(communicator, engine, "layer0", CHANNELS);
            forward(communicator, engine, "layer1", 2 * CHANNELS);
            boolean swapped = communicator.rank() == 1;
            forward(communicator, engine, swapped ? "layer1" : "layer0", (swapped ? 2 : 1) * CHANNELS);
            forward(communicator, engine, swapped ? "layer0" : "layer1", (swapped ? 1 : 2) * CHANNELS);
        });
        assertThat(failures).hasSize(2).allSatisfy(e -> assertThat(e.code()).isEqualTo(KcpException.Code.DISAGREEMENT));
    }

    @ParameterizedTest
    @EnumSource(Route.class)
    void aRankThatStopsCallingIsOverdue(Route route) {
        List<KcpException> failures = failures(route, (communicator, engine) -> {
            forward(communicator, engine, "layer0", CHANNELS);
            if (communicator.rank() == 1) {
                sleep(3 * DEADLINE.toMillis());
                communicator.checkAlive();
            } else {
                forward(communicator, engine, "layer0", CHANNELS);
                forward(communicator, engine, "layer0", CHANNELS);
            }
        });
        assertThat(failures).hasSize(2).allSatisfy(e -> assertThat(e.code()).isEqualTo(KcpException.Code.DEADLINE));
    }

    @Test
    void rowsOfAnotherCallAreFoundByTheirHeaders() {
        List<KcpException> failures = failures(Route.COLLECTIVE, (communicator, engine) -> {
            Tensor rows = engine.stream().zeros(DType.F32, 2, 64);
            int peer = 1 - communicator.rank();
            Call call = new Call(Call.Kind.EXCHANGE, "rows", 64, DType.F32, 7);
            communicator
                    .exchange(
                            call,
                            List.of(new Segment(peer, rows.rowAddress(0), 256)),
                            List.of(new Segment(peer, rows.rowAddress(1), 256)))
                    .await();
            communicator.synchronize();
            // What a lost message would leave behind: one rank's count is ahead.
            if (communicator.rank() == 0) {
                BitSet all = new BitSet();
                all.set(0, communicator.size());
                communicator.headers().check(all, new BitSet(), 0);
            }
            // Every eighth message takes a header along.
            for (int i = 0; i < 8; i++) {
                communicator
                        .exchange(
                                call,
                                List.of(new Segment(peer, rows.rowAddress(0), 256)),
                                List.of(new Segment(peer, rows.rowAddress(1), 256)))
                        .await();
            }
            for (int i = 0; i < 200; i++) {
                sleep(10);
                communicator.checkAlive();
            }
        });
        assertThat(failures).hasSize(2).allSatisfy(e -> {
            assertThat(e.code()).isEqualTo(KcpException.Code.DISAGREEMENT);
            assertThat(e).hasMessageContaining("rank 1 got stray rows").hasMessageContaining("expectedMessage=1 ");
        });
    }

    @Test
    void ranksThatShareAGpuAreToldSoBeforeNcclIsAsked() {
        List<Communicator> controls = LocalCommunicator.group(2, DEADLINE);
        List<Throwable> failures = new java.util.concurrent.CopyOnWriteArrayList<>();
        List<Thread> threads = controls.stream()
                .map(control -> Thread.ofPlatform().start(() -> {
                    try (CudaConvEngine engine = CudaConvEngine.open(0)) {
                        failures.add(catchThrowable(
                                () -> NcclCommunicator.create(control, engine.stream(), GpuRanks.library(), DEADLINE)));
                    }
                }))
                .toList();
        threads.forEach(thread -> {
            try {
                thread.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        assertThat(failures).hasSize(2).allSatisfy(e -> assertThat(e)
                .isInstanceOfSatisfying(
                        KcpException.class, k -> assertThat(k.code()).isEqualTo(KcpException.Code.MISSING_DEVICE))
                .hasMessageContaining("GPU of its own"));
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
