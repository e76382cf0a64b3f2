package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.comm.LocalRanks;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.Layout;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class MicroStepsTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final TextCorpus CORPUS = Texts.documents(11, 60);

    private record Step(TrainStep.Result result, float[] first, List<ExchangeCounts> exchanges) {}

    /** The first moment after one step is a tenth of the gradient, as long as its norm is not limited. */
    @ParameterizedTest
    @CsvSource({"1,true", "2,true", "2,false", "3,true"})
    void gradientOfAStepIsTheMeanOfItsBatches(int world, boolean checkpoint) {
        int microSteps = 3;
        List<PackedBatch> batches = new ArrayList<>();
        Packer packer = new Packer(CORPUS, 256, 1);
        for (int i = 0; i < microSteps; i++) {
            batches.add(packer.next());
        }
        Step together = step(world, batches, checkpoint);
        List<Step> apart = batches.stream()
                .map(batch -> step(world, List.of(batch), checkpoint))
                .toList();
        assertThat(together.result().loss())
                .isCloseTo(
                        apart.stream()
                                .mapToDouble(step -> step.result().loss())
                                .average()
                                .orElseThrow(),
                        within(1e-9));
        double scale = 0;
        double error = 0;
        for (int i = 0; i < together.first().length; i++) {
            double mean = 0;
            for (Step one : apart) {
                mean += one.first()[i] / (double) microSteps;
            }
            scale = Math.max(scale, Math.abs(mean));
            error = Math.max(error, Math.abs(together.first()[i] - mean));
        }
        // Batches' own gradients were rounded to BF16 on their way, at another scale.
        assertThat(error).isLessThan(1e-2 * scale);
        assertThat(together.exchanges()).allSatisfy(layer -> {
            assertThat(layer.forward()).isEqualTo(microSteps);
            assertThat(layer.recompute()).isZero();
            assertThat(layer.backward()).isEqualTo(microSteps);
        });
    }

    private static Step step(int world, List<PackedBatch> batches, boolean checkpoint) {
        TrainConfig config = new TrainConfig(
                new ModelShape(2, 16),
                256,
                1,
                1,
                0.01,
                0.1,
                1e9,
                Layout.ZIGZAG,
                64,
                checkpoint,
                true,
                batches.size(),
                true);
        return LocalRanks.run(world, DEADLINE, communicator -> {
                    try (TrainEngine engine = new CpuTrainEngine(1);
                            TrainStep train = new TrainStep(config, communicator, engine)) {
                        TrainStep.Result result = train.run(1, batches, 0.01);
                        return new Step(
                                result,
                                train.optimizer().first().flat().segment().toArray(ValueLayout.JAVA_FLOAT),
                                train.exchanges());
                    }
                })
                .getFirst();
    }
}
