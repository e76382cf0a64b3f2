package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.lifecycle.AfterContainer;

/** Any geometry, against the FP64 reference and against each document run alone. */
class CausalConv1dProperties {
    private static final CpuConvEngine ONE_THREAD = new CpuConvEngine(1);
    private static final CpuConvEngine THREE_THREADS = new CpuConvEngine(3);

    @AfterContainer
    static void closeEngines() {
        ONE_THREAD.close();
        THREE_THREADS.close();
    }

    @Provide
    Arbitrary<List<Integer>> lengths() {
        Arbitrary<Integer> tiny = Arbitraries.integers().between(0, 4);
        Arbitrary<Integer> around = Arbitraries.integers().between(58, 70);
        Arbitrary<Integer> any = Arbitraries.integers().between(0, 300);
        return Arbitraries.frequencyOf(
                        net.jqwik.api.Tuple.of(5, tiny),
                        net.jqwik.api.Tuple.of(1, around),
                        net.jqwik.api.Tuple.of(1, any))
                .list()
                .ofMinSize(1)
                .ofMaxSize(20);
    }

    @Property(tries = 60)
    void matchesTheReference(
            @ForAll("lengths") List<Integer> lengths,
            @ForAll long seed,
            @ForAll SiluGradPolicy policy,
            @ForAll boolean halfTaps,
            @ForAll boolean withBias) {
        try (ConvCase in = ConvCase.random(
                        seed, 24, halfTaps ? DType.BF16 : DType.F32, withBias ? DType.F32 : null, array(lengths));
                Tensor y = conv(ONE_THREAD, policy).forward(in.x(), in.weight(), in.bias(), in.offsets(), null);
                Gradients out = poisonedOutputs(in)) {
            conv(THREE_THREADS, policy).backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), out);
            ReferenceConv.Result expected = ReferenceConv.run(in, policy);
            Tolerance.assertY(y, expected);
            Tolerance.assertDx(out.dx(), expected);
            Tolerance.assertSums(out.dweight(), out.dbias(), expected, policy);
        }
    }

    @Property(tries = 30)
    void documentsRunAloneGiveTheSameBits(@ForAll("lengths") List<Integer> lengths, @ForAll long seed) {
        try (ConvCase in = ConvCase.random(seed, 16, array(lengths));
                Tensor y = conv(THREE_THREADS, SiluGradPolicy.BF16)
                        .forward(in.x(), in.weight(), null, in.offsets(), null);
                Gradients packed = poisonedOutputs(in)) {
            conv(THREE_THREADS, SiluGradPolicy.BF16).backward(in.x(), in.weight(), null, in.offsets(), in.dy(), packed);
            for (int d = 0; d < in.documents(); d++) {
                int begin = in.begin(d);
                int end = in.begin(d + 1);
                try (Tensor alone = ConvCase.ints(0, end - begin);
                        Tensor dx = Tensor.zeros(DType.BF16, end - begin, in.channels());
                        Tensor yAlone = conv(ONE_THREAD, SiluGradPolicy.BF16)
                                .forward(in.x().rows(begin, end), in.weight(), null, alone, null)) {
                    conv(ONE_THREAD, SiluGradPolicy.BF16)
                            .backward(
                                    in.x().rows(begin, end),
                                    in.weight(),
                                    null,
                                    alone,
                                    in.dy().rows(begin, end),
                                    new Gradients(dx, null, null));
                    Tolerance.assertSameBits("y", yAlone, y.rows(begin, end));
                    Tolerance.assertSameBits("dx", dx, packed.dx().rows(begin, end));
                }
            }
        }
    }

    @Property(tries = 20)
    void bitsDoNotDependOnThreadsOrVectors(
            @ForAll("lengths") List<Integer> lengths, @ForAll long seed, @ForAll SiluGradPolicy policy) {
        try (ConvCase in = ConvCase.random(seed, 136, DType.F32, DType.BF16, array(lengths));
                Gradients expected = poisonedOutputs(in)) {
            conv(ONE_THREAD, policy).backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), expected);
            for (int threads : new int[] {2, 3, 7}) {
                boolean vectors = threads != 3;
                try (CpuConvEngine engine = new CpuConvEngine(threads, vectors);
                        Gradients out = poisonedOutputs(in)) {
                    conv(engine, policy).backward(in.x(), in.weight(), in.bias(), in.offsets(), in.dy(), out);
                    Tolerance.assertSameBits("dx", out.dx(), expected.dx());
                    Tolerance.assertSameBits("dweight", out.dweight(), expected.dweight());
                    Tolerance.assertSameBits("dbias", out.dbias(), expected.dbias());
                }
            }
        }
    }

    private static CausalConv1d conv(ConvEngine engine, SiluGradPolicy policy) {
        return new CausalConv1d(engine, ConvOptions.DEFAULT.withPolicy(policy));
    }

    /** FP32 sums; every byte is 0xFF before the call, so that a row not written shows. */
    private static Gradients poisonedOutputs(ConvCase in) {
        Gradients out = new Gradients(
                Tensor.zeros(DType.BF16, in.rows(), in.channels()),
                Tensor.zeros(DType.F32, in.channels(), 4),
                in.bias() == null ? null : Tensor.zeros(DType.F32, in.channels()));
        out.dx().segment().fill((byte) 0xFF);
        out.dweight().segment().fill((byte) 0xFF);
        if (out.dbias() != null) {
            out.dbias().segment().fill((byte) 0xFF);
        }
        assertThat(out.wantsSums()).isTrue();
        return out;
    }

    private static int[] array(List<Integer> lengths) {
        return lengths.stream().mapToInt(Integer::intValue).toArray();
    }
}
