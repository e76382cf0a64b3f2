package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.core.Layout;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.cuda.CudaTrainEngine;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code --verify} on GPUs: it passes where all is well, and finds a row that is not. */
class CudaVerifierTest {
    private static final int STEPS = 5;
    private static final int TOKENS = 512;

    @NeedsGpu
    @ParameterizedTest(name = "align {0}, {1} micro-steps")
    @CsvSource({"64,1", "64,3", "1,1"})
    void healthyRunPassesWithTheLossesOfAnUnverifiedOne(int align, int microSteps) {
        assertHealthy(1, align, microSteps);
    }

    @NeedsTwoGpus
    @ParameterizedTest(name = "align {0}, {1} micro-steps")
    @CsvSource({"64,1", "64,3", "1,1"})
    void healthyRunOnTwoGpusPassesWithTheLossesOfAnUnverifiedOne(int align, int microSteps) {
        assertHealthy(2, align, microSteps);
    }

    private static void assertHealthy(int world, int align, int microSteps) {
        TrainConfig config = config(align, microSteps);
        List<Double> verified = run(config, world, -1, true);
        assertThat(verified).hasSize(STEPS).isEqualTo(run(config, world, -1, false));
    }

    @NeedsGpu
    @Test
    void firstWrongRowIsNamed() {
        assertFound(1, 5);
    }

    @NeedsTwoGpus
    @Test
    void firstWrongRowOfTheSecondGpuIsNamedOnBoth() {
        assertFound(2, TOKENS / 2 + 5);
    }

    /** The last rank's row 5 is spoilt in the sharded run's second layer; without checkpoints each norm is one call. */
    private static void assertFound(int world, int token) {
        TrainConfig config = config(64, 1);
        // Calls of a step on a rank: three norms of the reference, then three of the sharded run.
        int call = 3 + 1;
        assertThatThrownBy(() -> run(config, world, call, true))
                .isInstanceOfSatisfying(KcpException.class, failure -> assertThat(failure.code())
                        .isEqualTo(KcpException.Code.DISAGREEMENT))
                .hasMessageContaining("the run differs from a run on one rank: step=1 layer=1 tensor=y token=" + token)
                .hasMessageContaining(" rank=" + (world - 1) + " value=")
                .hasMessageContaining(" single-rank value=");
        assertThat(run(config, world, call, false)).hasSize(STEPS);
    }

    /** @param spoiltNorm call of norm after which the last rank's row 5 is zeros, or -1 */
    private static List<Double> run(TrainConfig config, int world, int spoiltNorm, boolean verify) {
        return CudaRuns.onGpus(world, (group, engine) -> {
                    List<Double> losses = new ArrayList<>();
                    new TrainLoop(
                                    config,
                                    CudaRuns.CORPUS,
                                    group,
                                    spoiling(engine, group, spoiltNorm),
                                    null,
                                    verify,
                                    null)
                            .run((step, loss, speed) -> losses.add(loss));
                    return losses;
                })
                .getFirst();
    }

    private static TrainEngine spoiling(CudaTrainEngine engine, Communicator group, int spoiltNorm) {
        if (spoiltNorm < 0 || group.rank() < group.size() - 1) {
            return engine;
        }
        int[] norms = {0};
        return (TrainEngine) Proxy.newProxyInstance(
                CudaVerifierTest.class.getClassLoader(),
                new Class<?>[] {TrainEngine.class},
                (proxy, method, arguments) -> {
                    try {
                        Object result = method.invoke(engine, arguments);
                        if (method.getName().equals("norm") && norms[0]++ == spoiltNorm) {
                            engine.zero(((Tensor) arguments[2]).rows(5, 6));
                        }
                        return result;
                    } catch (InvocationTargetException failure) {
                        throw failure.getCause();
                    }
                });
    }

    private static TrainConfig config(int align, int microSteps) {
        return new TrainConfig(
                new ModelShape(2, 64),
                TOKENS,
                STEPS,
                1,
                0.01,
                0.1,
                1,
                Layout.CONTIGUOUS,
                align,
                false,
                align % 64 == 0,
                microSteps,
                true);
    }
}
