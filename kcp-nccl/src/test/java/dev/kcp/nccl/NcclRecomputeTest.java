package dev.kcp.nccl;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Call;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.Checkpoint;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.Layout;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.Partition;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/** How often rows travel under checkpointing, by the convolution's own count and by the messages that were sent. */
@NeedsTwoGpus
class NcclRecomputeTest {
    private static final int CHANNELS = 64;
    private static final int TOKENS = 256;
    private static final ConvOptions PORTABLE = new ConvOptions(SiluGradPolicy.BF16, ConvMath.PORTABLE, false);

    /** One rank of one document that every cut parts. */
    private static final class Layer implements AutoCloseable {
        final NcclCommunicator communicator;
        final CudaStream stream;
        final KcpConv1d conv = new KcpConv1d("layer0", PORTABLE);
        final KcpContext context;
        final Tensor x;
        final Tensor weight;
        final Tensor y;
        final Tensor dx;

        Layer(NcclCommunicator communicator, CudaConvEngine engine) {
            this.communicator = communicator;
            stream = engine.stream();
            Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(TOKENS), communicator.size(), 1);
            context = new KcpContext(partition, communicator, engine);
            int tokens = context.localTokens();
            try (ConvCase in = ConvCase.random(communicator.rank(), CHANNELS, tokens);
                    ConvCase same = ConvCase.random(77, CHANNELS, 1)) {
                x = stream.upload(in.x());
                weight = stream.upload(same.weight());
            }
            y = stream.zeros(DType.BF16, tokens, CHANNELS);
            dx = stream.zeros(DType.BF16, tokens, CHANNELS);
        }

        Saved forward(RecomputeHandle handle) {
            return conv.forward(context, x, weight, null, y, handle);
        }

        void backward(Saved saved) {
            try (PartialGradients sums = conv.backward(saved, x, dx)) {
                conv.reduceGradients(List.of(sums), DType.F32).close();
            }
        }

        long sends(Call.Kind kind) {
            return communicator.stats().calls(kind);
        }

        /** Outer forward, outer recompute (which runs the inner forward), inner recompute, backward. */
        void nested(Supplier<RecomputeHandle> handles) {
            try (Checkpoint outer = Checkpoint.of()) {
                RecomputeHandle first = handles.get();
                outer.forward(() -> inner(first, false));
                RecomputeHandle again = handles.get();
                outer.recompute(() -> inner(again, true));
                first.clear();
                again.clear();
            }
        }

        private Void inner(RecomputeHandle handle, boolean withBackward) {
            try (Checkpoint region = Checkpoint.of(handle)) {
                region.forward(() -> forward(handle)).close();
                if (withBackward) {
                    try (Saved saved = region.recompute(() -> forward(handle))) {
                        backward(saved);
                    }
                }
            }
            return null;
        }

        @Override
        public void close() {
            context.close();
            List.of(x, weight, y, dx).forEach(Tensor::close);
        }
    }

    private static void assertCounts(ExchangeCounts expected, java.util.function.Consumer<Layer> step) {
        try (GpuRanks ranks = new GpuRanks(GpuRanks.gpus(), GpuRanks.DEADLINE)) {
            ranks.run((communicator, engine) -> {
                try (Layer layer = new Layer(communicator, engine);
                        Layer plain = new Layer(communicator, engine)) {
                    long forward = layer.sends(Call.Kind.HALO_FORWARD);
                    long backward = layer.sends(Call.Kind.HALO_BACKWARD);
                    step.accept(layer);
                    assertThat(layer.conv.exchanges()).isEqualTo(expected);
                    assertThat(layer.sends(Call.Kind.HALO_FORWARD) - forward)
                            .isEqualTo(expected.forward() + expected.recompute());
                    assertThat(layer.sends(Call.Kind.HALO_BACKWARD) - backward).isEqualTo(expected.backward());
                    try (Saved saved = plain.forward(null)) {
                        plain.backward(saved);
                    }
                    assertSame("y", layer.y, plain.y, engine.stream());
                    assertSame("dx", layer.dx, plain.dx, engine.stream());
                }
                return null;
            });
        }
    }

    private static void assertSame(String name, Tensor got, Tensor wanted, CudaStream stream) {
        try (Tensor gotHost = stream.download(got);
                Tensor wantedHost = stream.download(wanted)) {
            assertSameBits(name, gotHost, wantedHost);
        }
    }

    @Test
    void aBoundRecomputeExchangesNothingHoweverOftenItRuns() {
        assertCounts(new ExchangeCounts(1, 0, 1), layer -> {
            RecomputeHandle handle = RecomputeHandle.create();
            try (Checkpoint region = Checkpoint.of(handle)) {
                region.forward(() -> layer.forward(handle)).close();
                region.recompute(() -> layer.forward(handle)).close();
                try (Saved saved = region.recompute(() -> layer.forward(handle))) {
                    layer.backward(saved);
                }
            }
            handle.clear();
        });
    }

    @Test
    void withoutAHandleTheRecomputeExchangesToo() {
        assertCounts(new ExchangeCounts(1, 1, 1), layer -> {
            try (Checkpoint region = Checkpoint.of()) {
                region.forward(() -> layer.forward(null)).close();
                try (Saved saved = region.recompute(() -> layer.forward(null))) {
                    layer.backward(saved);
                }
            }
        });
    }

    @Test
    void aHandleFromOutsideTwoNestedRegionsServesBothRecomputes() {
        assertCounts(new ExchangeCounts(1, 0, 1), layer -> {
            RecomputeHandle handle = RecomputeHandle.create();
            layer.nested(() -> handle);
        });
    }

    @Test
    void aHandleMadeBetweenTwoNestedRegionsExchangesInTheOuterRecompute() {
        assertCounts(new ExchangeCounts(1, 1, 1), layer -> layer.nested(RecomputeHandle::create));
    }
}
