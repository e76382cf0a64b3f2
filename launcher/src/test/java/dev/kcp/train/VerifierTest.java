package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.core.Layout;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class VerifierTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final TextCorpus CORPUS = Texts.documents(3, 40);
    private static final int STEPS = 3;

    @ParameterizedTest
    @CsvSource({"1,64,true,1", "3,64,true,2", "2,1,false,1", "3,1,false,2"})
    void healthyRunPassesAndHasTheLossesOfAnUnverifiedOne(int world, int align, boolean sameBits, int microSteps) {
        TrainConfig config = config(Layout.ZIGZAG, align, sameBits, microSteps);
        assertThat(run(config, world, Map.of(), true)).isEqualTo(run(config, world, Map.of(), false));
    }

    /** Rank 1 of two owns tokens 128 to 255; its row 5 is token 133. Without checkpoints each norm is one call. */
    @ParameterizedTest
    @CsvSource({
        "0,false,'layer=0 tensor=y token=133 channel='",
        "1,false,'layer=1 tensor=y token=133 channel='",
        "0,true,'layer=0 tensor=y token=133 channel='"
    })
    void firstDifferenceIsNamed(int layer, boolean loose, String named) {
        TrainConfig config = config(Layout.CONTIGUOUS, 64, !loose, 1);
        // Calls of a step on a rank: three norms of the reference, then three of the sharded run.
        Map<Integer, String> tamper = Map.of(3 + layer, "norm");
        assertThatThrownBy(() -> run(config, 2, tamper, true))
                .isInstanceOfSatisfying(KcpException.class, failure -> assertThat(failure.code())
                        .isEqualTo(KcpException.Code.DISAGREEMENT))
                .hasMessageContaining("the run differs from a run on one rank: step=1 " + named)
                .hasMessageContaining(" rank=1 value=")
                .hasMessageContaining(" single-rank value=");
        assertThat(run(config, 2, tamper, false)).hasSize(STEPS);
    }

    @Test
    void differenceOfAGradientAloneIsNamed() {
        TrainConfig config = config(Layout.CONTIGUOUS, 64, true, 1);
        // The reference's two layers come first, the last of them first.
        assertThatThrownBy(() -> run(config, 2, Map.of(2 * 2 + 1, "weightGradient"), true))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("step=1 layer=1 tensor=gradient of w1 row=5 channel=");
    }

    @Test
    void differenceOfDxIsNamed() {
        TrainConfig config = config(Layout.CONTIGUOUS, 64, true, 1);
        // Output: logits and their gradient; each layer: one product forward and one after it; backward two more.
        assertThatThrownBy(() -> run(config, 2, Map.of(10 + 6, "multiply"), true))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("step=1 layer=1 tensor=dx token=");
    }

    private static List<Double> run(TrainConfig config, int world, Map<Integer, String> tamper, boolean verify) {
        return LocalRanks.run(world, DEADLINE, communicator -> {
                    List<Double> losses = new ArrayList<>();
                    try (TrainEngine engine = engine(communicator, tamper)) {
                        new TrainLoop(config, CORPUS, communicator, engine, null, verify, null)
                                .run((step, loss, speed) -> losses.add(loss));
                    }
                    return losses;
                })
                .getFirst();
    }

    /** An engine that on rank 1, after the calls named by number and name, turns row 5 of what they wrote around. */
    private static TrainEngine engine(Communicator communicator, Map<Integer, String> tamper) {
        TrainEngine engine = new CpuTrainEngine(1);
        if (communicator.rank() != 1 || tamper.isEmpty()) {
            return engine;
        }
        Map<String, Integer> calls = new TreeMap<>();
        return (TrainEngine) Proxy.newProxyInstance(
                VerifierTest.class.getClassLoader(), new Class<?>[] {TrainEngine.class}, (proxy, method, arguments) -> {
                    try {
                        Object result = method.invoke(engine, arguments);
                        int call = calls.merge(method.getName(), 1, Integer::sum) - 1;
                        if (method.getName().equals(tamper.get(call))) {
                            spoil(written(method.getName(), arguments));
                        }
                        return result;
                    } catch (InvocationTargetException failure) {
                        throw failure.getCause();
                    }
                });
    }

    private static Tensor written(String method, Object[] arguments) {
        return (Tensor)
                switch (method) {
                    case "norm" -> arguments[2];
                    case "multiply" -> arguments[5];
                    case "weightGradient" -> arguments[3];
                    default -> throw new AssertionError(method);
                };
    }

    /** Negates FP32 or BF16 numbers. */
    private static void spoil(Tensor tensor) {
        int bytes = tensor.dtype().bytes();
        // Sums hold one matrix a row; of other tensors this is row 5.
        long begin = tensor.columns() > 16 ? tensor.address() + 5L * 16 * bytes : tensor.rowAddress(5);
        for (int i = 0; i < 16; i++) {
            long top = begin + (long) i * bytes + bytes - 1;
            byte bits = HostMemory.ALL.get(ValueLayout.JAVA_BYTE, top);
            HostMemory.ALL.set(ValueLayout.JAVA_BYTE, top, (byte) (bits ^ 0x80));
        }
    }

    private static TrainConfig config(Layout layout, int align, boolean sameBits, int microSteps) {
        return new TrainConfig(
                new ModelShape(2, 16), 256, STEPS, 1, 0.01, 0.1, 1, layout, align, false, sameBits, microSteps, true);
    }
}
