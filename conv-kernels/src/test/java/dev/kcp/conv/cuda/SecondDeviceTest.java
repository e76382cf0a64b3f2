package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.cuda.CudaGraph;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Two GPUs in one process: whichever is current for a thread, each engine works on its own. */
@NeedsTwoGpus
class SecondDeviceTest {
    private static final long SMALL_GROWTH_BYTES = 4L << 20;

    private static CudaConvEngine first;
    private static CudaConvEngine second;

    @BeforeAll
    static void open() {
        first = CudaConvEngine.open(0);
        second = CudaConvEngine.open(1);
    }

    @AfterAll
    static void close() {
        if (second != null) {
            second.close();
            first.close();
        }
    }

    private static void assertSame(OnDevice got, OnDevice want) {
        Tolerance.assertSameBits("y", got.host(got.y), want.host(want.y));
        Tolerance.assertSameBits("dx", got.host(got.gradients.dx()), want.host(want.gradients.dx()));
        Tolerance.assertSameBits("dweight", got.host(got.gradients.dweight()), want.host(want.gradients.dweight()));
        if (want.bias != null) {
            Tolerance.assertSameBits("dbias", got.host(got.gradients.dbias()), want.host(want.gradients.dbias()));
        }
    }

    @Test
    void case45And106TheSameShapesOnBothHaveTheSameBits() {
        for (int seed = 0; seed < 12; seed++) {
            Random random = new Random(seed);
            DType biasType = seed % 2 == 0 ? null : DType.BF16;
            try (ConvCase in = ConvCase.random(seed, 136, DType.F32, biasType, CudaParityTest.lengths(random));
                    OnDevice one = new OnDevice(first, in, DType.F32);
                    OnDevice other = new OnDevice(second, in, DType.F32)) {
                for (SiluGradPolicy policy : SiluGradPolicy.values()) {
                    ConvOptions options = ConvOptions.DEFAULT.withPolicy(policy);
                    one.run(options);
                    other.run(options);
                    assertSame(other, one);
                }
            }
        }
    }

    @Test
    void case103And104FreshThreadsWorkOnTheEnginesDeviceAlone() throws InterruptedException {
        try (ConvCase in = ConvCase.random(3, 4096, 100, 2000);
                OnDevice one = new OnDevice(first, in, DType.F32).run(ConvOptions.DEFAULT);
                OnDevice other = new OnDevice(second, in, DType.F32)) {
            first.stream().synchronize();
            long free = first.stream().device().freeBytes();
            for (Thread.Builder kind : new Thread.Builder[] {Thread.ofPlatform(), Thread.ofVirtual()}) {
                other.poisonResults();
                kind.start(() -> other.run(ConvOptions.DEFAULT)).join();
                assertSame(other, one);
            }
            assertThat(free - first.stream().device().freeBytes()).isLessThan(SMALL_GROWTH_BYTES);
        }
    }

    @Test
    void graphsOfBothReplayInTurn() {
        try (ConvCase in = ConvCase.random(4, 64, 300, 5);
                OnDevice one = new OnDevice(first, in, DType.F32);
                OnDevice other = new OnDevice(second, in, DType.F32)) {
            first.prepare(in.rows(), in.channels());
            second.prepare(in.rows(), in.channels());
            try (CudaGraph onFirst = CudaGraph.capture(first.stream(), () -> one.run(ConvOptions.DEFAULT));
                    CudaGraph onSecond = CudaGraph.capture(second.stream(), () -> other.run(ConvOptions.DEFAULT))) {
                for (int i = 0; i < 10; i++) {
                    onSecond.launch();
                    onFirst.launch();
                }
                assertSame(other, one);
            }
        }
    }

    @Test
    void tensorsOfTheOtherDeviceAreRefused() {
        try (ConvCase in = ConvCase.random(5, 16, 40);
                OnDevice here = new OnDevice(first, in, DType.F32);
                OnDevice there = new OnDevice(second, in, DType.F32);
                Memory space = second.stream().allocate(1 << 20)) {
            CausalConv1d conv = new CausalConv1d(first, ConvOptions.DEFAULT);
            String wanted = "device=cuda:1 wanted=cuda:0";
            refused(() -> conv.forward(there.x, here.weight, null, here.offsets, here.y), wanted);
            refused(() -> conv.forward(here.x, there.weight, null, here.offsets, here.y), wanted);
            refused(() -> conv.forward(here.x, here.weight, null, here.offsets, there.y), wanted);
            refused(() -> conv.backward(here.x, here.weight, null, here.offsets, there.dy, here.gradients), wanted);
            refused(() -> conv.backward(here.x, here.weight, null, here.offsets, here.dy, there.gradients), wanted);
            refused(
                    () -> conv.backward(here.x, here.weight, null, here.offsets, here.dy, here.gradients, space),
                    wanted);
            refused(() -> conv.forward(here.x, here.weight, null, there.offsets, here.y), "on cuda:1");
        }
    }

    private static void refused(Runnable call, String ending) {
        assertThatIllegalArgumentException().isThrownBy(call::run).withMessageEndingWith(ending);
    }
}
