package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.LocalRanks;
import dev.kcp.core.Layout;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The whole run, on one rank and on several, bit by bit. */
class SameBitsTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final int STEPS = 4;
    private static final TextCorpus CORPUS = Texts.documents(7, 60);

    private record Run(List<TrainStep.Result> results, float[] weights, float[] first, float[] second) {}

    @ParameterizedTest(name = "{0} tokens, {1} channels, align {2}, {3}, {4} micro-steps")
    @CsvSource({
        "777,32,64,CONTIGUOUS,1",
        "777,32,64,ZIGZAG,1",
        "777,32,64,ZIGZAG_PER_DOCUMENT,1",
        "1024,128,128,CONTIGUOUS,1",
        "1500,24,192,CONTIGUOUS,1",
        "130,16,64,ZIGZAG,1",
        "333,32,64,ZIGZAG,3"
    })
    void lossNormWeightsAndMomentsDoNotDependOnTheNumberOfRanks(
            int tokens, int channels, int align, Layout layout, int microSteps) {
        Run alone = run(config(tokens, channels, align, Layout.CONTIGUOUS, microSteps), 1)
                .getFirst();
        assertThat(alone.results()).doesNotHaveDuplicates().hasSize(STEPS);
        for (int world = 2; world <= 4; world++) {
            for (Run together : run(config(tokens, channels, align, layout, microSteps), world)) {
                assertThat(together.results()).as("world %s", world).isEqualTo(alone.results());
                assertThat(together.weights()).as("world %s", world).isEqualTo(alone.weights());
                assertThat(together.first()).as("world %s", world).isEqualTo(alone.first());
                assertThat(together.second()).as("world %s", world).isEqualTo(alone.second());
            }
        }
    }

    private static List<Run> run(TrainConfig config, int world) {
        return LocalRanks.run(world, DEADLINE, communicator -> {
            try (TrainEngine engine = new CpuTrainEngine(1);
                    TrainStep train = new TrainStep(config, communicator, engine)) {
                Packer packer = new Packer(CORPUS, config.tokens(), config.seed());
                List<TrainStep.Result> results = new ArrayList<>();
                for (int step = 1; step <= STEPS; step++) {
                    results.add(train.run(
                            step,
                            IntStream.range(0, config.microSteps())
                                    .mapToObj(i -> packer.next())
                                    .toList(),
                            0.01));
                }
                return new Run(
                        results,
                        floats(train.weights().values()),
                        floats(train.optimizer().first()),
                        floats(train.optimizer().second()));
            }
        });
    }

    private static float[] floats(ParameterBuffer buffer) {
        return buffer.flat().segment().toArray(ValueLayout.JAVA_FLOAT);
    }

    private static TrainConfig config(int tokens, int channels, int align, Layout layout, int microSteps) {
        return new TrainConfig(
                new ModelShape(2, channels),
                tokens,
                STEPS,
                1,
                0.01,
                0.1,
                1,
                layout,
                align,
                true,
                true,
                microSteps,
                true);
    }
}
