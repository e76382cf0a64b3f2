package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.NativeMemory;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Cases 56, 57, 77 and 100: many exchanges at once, with ranks early and late, neither hang nor grow. */
class SoakTest {
    private static final int RANKS = 3;
    /** For classes that are loaded meanwhile. */
    private static final long HEAP_SLACK_BYTES = 2L << 20;

    private static final int CHANNELS = 16;

    /** One context with a communicator and a thread of its own on each rank. */
    private static void exchange(Communicator communicator, Layout layout, int steps) {
        Partition partition = Partition.of(layout, CuSeqlens.ofLengths(11, 1, 2, 9), RANKS, 1);
        int tokens = partition.tokens(communicator.rank());
        Random delays = new Random(communicator.rank());
        try (communicator;
                ConvEngine engine = new CpuConvEngine(1);
                KcpContext context = new KcpContext(partition, communicator, engine);
                ConvCase in = ConvCase.random(communicator.rank(), CHANNELS, tokens);
                Tensor y = Tensor.zeros(DType.BF16, tokens, CHANNELS)) {
            KcpConv1d conv = new KcpConv1d(layout.label(), ConvOptions.DEFAULT);
            for (int step = 0; step < steps; step++) {
                pause(delays);
                try (Saved saved = conv.forward(context, in.x(), in.weight(), null, y, null)) {
                    pause(delays);
                    conv.backward(saved, in.dy(), y).close();
                }
            }
            assertThat(conv.exchanges()).isEqualTo(new ExchangeCounts(steps, 0, steps));
        }
    }

    private static void pause(Random delays) {
        if (delays.nextInt(50) == 0) {
            LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(delays.nextInt(1000)));
        }
    }

    private static void twoContextsAtOnce(int steps) throws Exception {
        try (ExecutorService threads = Executors.newFixedThreadPool(2 * RANKS)) {
            List<Future<?>> ends = new ArrayList<>();
            for (Communicator world : LocalCommunicator.group(RANKS, Sharded.DEADLINE)) {
                AtomicReference<Communicator> second = new AtomicReference<>();
                ends.add(threads.submit(() -> {
                    second.set(world.split(0, -world.rank()));
                    Future<?> other = threads.submit(() -> exchange(second.get(), Layout.ZIGZAG_PER_DOCUMENT, steps));
                    exchange(world, Layout.CONTIGUOUS, steps);
                    return other.get();
                }));
            }
            for (Future<?> end : ends) {
                end.get();
            }
        }
    }

    @Test
    void twoThousandExchangesOfTwoContexts() throws Exception {
        assertLeaveNothing(1, 500);
    }

    @Test
    @Tag("heavy")
    void tenThousandExchangesOfTwoContexts() throws Exception {
        assertLeaveNothing(1, 2500);
    }

    /** Case 76: groups that come and go leave neither threads nor memory. */
    @Test
    void fortyGroups() throws Exception {
        assertLeaveNothing(40, 1);
    }

    private static void assertLeaveNothing(int groups, int steps) throws Exception {
        twoContextsAtOnce(50);
        int threads = Thread.activeCount();
        long nativeBytes = NativeMemory.bytes();
        long heapBytes = usedHeapBytes();
        for (int i = 0; i < groups; i++) {
            twoContextsAtOnce(steps);
        }
        Eventually.atMost("threads", threads, Thread::activeCount);
        Eventually.atMost("bytes outside the heap", nativeBytes, NativeMemory::bytes);
        Eventually.atMost("bytes of the heap", heapBytes + HEAP_SLACK_BYTES, SoakTest::usedHeapBytes);
    }

    /** What is still reachable: a collection that is asked for ends before its call does. */
    private static long usedHeapBytes() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
