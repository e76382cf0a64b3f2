package dev.kcp.nccl;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.core.Sharded;
import dev.kcp.core.Shards;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.io.File;
import org.junit.jupiter.api.Test;

/** Groups that come and go, and several at once. */
@NeedsTwoGpus
class NcclLifecycleTest {
    private static final int CHANNELS = 64;
    private static final ConvOptions PORTABLE = new ConvOptions(SiluGradPolicy.BF16, ConvMath.PORTABLE, false);

    @Test
    void twoHundredGroupsComeAndGoWithoutGrowth() {
        int cycles = Math.max(20, Integer.getInteger("kcp.test.cycles", 200));
        int settled = Math.max(5, cycles / 10);
        long[] free = new long[2];
        long[] files = new long[2];
        for (int i = 1; i <= cycles; i++) {
            try (GpuRanks ranks = new GpuRanks(2, GpuRanks.DEADLINE)) {
                ranks.run((communicator, engine) -> {
                    NcclFailureTest.forward(communicator, engine, "layer0", CHANNELS);
                    return null;
                });
            }
            if (i == settled || i == cycles) {
                int at = i == settled ? 0 : 1;
                try (CudaDevice device = CudaDevice.open(0)) {
                    free[at] = device.freeBytes();
                }
                files[at] = new File("/proc/self/fd").list().length;
            }
        }
        assertThat(free[1]).as("free device memory").isGreaterThan(free[0] - (64L << 20));
        assertThat(files[1]).as("open files").isLessThanOrEqualTo(files[0] + 5);
    }

    @Test
    void twoConvolutionsOnTwoStreamsWithCommunicatorsOfTheirOwn() {
        int[] lengths = {300, 17, 195};
        Partition partition = Partition.of(Layout.ZIGZAG, CuSeqlens.ofLengths(lengths), 2, 64);
        try (ConvCase first = ConvCase.random(1, CHANNELS, lengths);
                ConvCase second = ConvCase.random(2, CHANNELS, lengths);
                Sharded expectedFirst = Sharded.alone(first, PORTABLE);
                Sharded expectedSecond = Sharded.alone(second, PORTABLE);
                GpuRanks ranks = new GpuRanks(2, GpuRanks.DEADLINE)) {
            ranks.run((communicator, engine) -> {
                CudaStream other = CudaStream.create(engine.stream().device());
                try (other;
                        CudaConvEngine otherEngine = CudaConvEngine.on(other, false);
                        NcclCommunicator otherGroup = NcclCommunicator.create(
                                communicator.host().split(0, communicator.rank()),
                                other,
                                GpuRanks.library(),
                                GpuRanks.DEADLINE)) {
                    try (Forward one = new Forward(partition, communicator, engine, first);
                            Forward two = new Forward(partition, otherGroup, otherEngine, second)) {
                        for (int i = 0; i < 20; i++) {
                            one.queue();
                            two.queue();
                        }
                        communicator.synchronize();
                        otherGroup.synchronize();
                        one.assertResult(expectedFirst);
                        two.assertResult(expectedSecond);
                    }
                }
                return null;
            });
        }
    }

    /** One forward that is queued again and again. */
    private static final class Forward implements AutoCloseable {
        private final Communicator communicator;
        private final CudaStream stream;
        private final KcpContext context;
        private final KcpConv1d conv = new KcpConv1d("layer0", PORTABLE);
        private final Tensor x;
        private final Tensor weight;
        private final Tensor y;

        Forward(Partition partition, Communicator communicator, CudaConvEngine engine, ConvCase in) {
            this.communicator = communicator;
            stream = engine.stream();
            context = new KcpContext(partition, communicator, engine);
            try (Tensor local = Tensor.zeros(DType.BF16, context.localTokens(), CHANNELS)) {
                Shards.take(partition, communicator.rank(), in.x(), local);
                x = stream.upload(local);
            }
            weight = stream.upload(in.weight());
            y = stream.zeros(DType.BF16, context.localTokens(), CHANNELS);
        }

        void queue() {
            conv.forward(context, x, weight, null, y, null).close();
        }

        void assertResult(Sharded expected) {
            try (Tensor mine = stream.download(y);
                    Tensor wanted = Tensor.zeros(DType.BF16, context.localTokens(), CHANNELS)) {
                Shards.take(context.partition(), communicator.rank(), expected.y(), wanted);
                assertSameBits("y of rank " + communicator.rank(), mine, wanted);
            }
        }

        @Override
        public void close() {
            context.close();
            x.close();
            weight.close();
            y.close();
        }
    }
}
