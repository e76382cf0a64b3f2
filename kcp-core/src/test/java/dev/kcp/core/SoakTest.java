package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.Settled;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Cases 56, 57, 77 and 100: many exchanges at once, with ranks early and late, neither hang nor grow. */
@Timeout(90)
class SoakTest {
    private static final int RANKS = 3;
    private static final int EXCHANGES_OF_A_CONTEXT = 5000;
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
    void tenThousandExchangesOfTwoContexts() throws Exception {
        int steps = EXCHANGES_OF_A_CONTEXT / 2;
        twoContextsAtOnce(steps / 5);
        long before = residentBytes();
        twoContextsAtOnce(steps);
        assertThat(residentBytes() - before).as("growth of resident bytes").isLessThan(48L << 20);
    }

    /** Case 76: groups that come and go leave neither threads nor memory. */
    @Test
    void twoHundredGroups() throws Exception {
        for (int i = 0; i < 5; i++) {
            twoContextsAtOnce(1);
        }
        int threads = Thread.activeCount();
        long before = residentBytes();
        for (int i = 0; i < 200; i++) {
            twoContextsAtOnce(1);
        }
        assertThat(Settled.count(Thread::activeCount, threads + 2)).isLessThanOrEqualTo(threads + 2);
        assertThat(residentBytes() - before).as("growth of resident bytes").isLessThan(48L << 20);
    }

    private static long residentBytes() {
        System.gc();
        try {
            return Files.readAllLines(Path.of("/proc/self/status")).stream()
                            .filter(line -> line.startsWith("VmRSS:"))
                            .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                            .findFirst()
                            .orElseThrow()
                    * 1024;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
