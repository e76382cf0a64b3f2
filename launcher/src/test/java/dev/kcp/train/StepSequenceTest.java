package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.LocalRanks;
import dev.kcp.core.Layout;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class StepSequenceTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final int STEPS = 4;
    private static final TextCorpus CORPUS = Texts.documents(5, 60);

    private record Run(List<TrainStep.Result> results, List<DataPosition> positions) {}

    @ParameterizedTest(name = "{0} ranks, {1}, {2} micro-steps")
    @CsvSource({"1,CONTIGUOUS,1", "2,ZIGZAG_PER_DOCUMENT,1", "2,ZIGZAG,3"})
    void stepsAndPlacesAreThoseOfStepsThatWaitForEachOther(int world, Layout layout, int microSteps) {
        TrainConfig config = config(layout, microSteps);
        List<Run> waiting = LocalRanks.run(world, DEADLINE, communicator -> {
            try (TrainEngine engine = new CpuTrainEngine(1);
                    TrainStep train = new TrainStep(config, communicator, engine)) {
                Packer packer = new Packer(CORPUS, config.tokens(), config.seed());
                LearningRate rate = new LearningRate(config.learningRate(), STEPS);
                Run run = new Run(new ArrayList<>(), new ArrayList<>());
                for (int step = 1; step <= STEPS; step++) {
                    List<PackedBatch> batches = new ArrayList<>();
                    for (int i = 0; i < microSteps; i++) {
                        batches.add(packer.next());
                    }
                    run.results().add(train.run(step, batches, rate.at(step)));
                    run.positions().add(packer.position());
                }
                return run;
            }
        });
        List<Run> ahead = LocalRanks.run(world, DEADLINE, communicator -> {
            try (TrainEngine engine = new CpuTrainEngine(1);
                    TrainStep train = new TrainStep(config, communicator, engine)) {
                StepSequence steps = new StepSequence(config, CORPUS, train, RunPosition.START);
                Run run = new Run(new ArrayList<>(), new ArrayList<>());
                while (steps.hasNext()) {
                    run.results().add(steps.next());
                    run.positions().add(steps.position().data());
                }
                return run;
            }
        });
        assertThat(ahead).isEqualTo(waiting);
        assertThat(ahead.getFirst().results()).hasSize(STEPS).doesNotHaveDuplicates();
        assertThat(ahead.getFirst().positions()).doesNotHaveDuplicates();
    }

    @Test
    void stepTakesItsOwnBatchesWhateverWasPrepared() {
        TrainConfig config = config(Layout.CONTIGUOUS, 1);
        Packer packer = new Packer(CORPUS, config.tokens(), config.seed());
        List<PackedBatch> batches = List.of(packer.next());
        List<PackedBatch> others = List.of(packer.next());
        List<TrainStep.Result> results = new ArrayList<>();
        for (List<PackedBatch> prepared : List.of(batches, others)) {
            LocalRanks.run(1, DEADLINE, communicator -> {
                try (TrainEngine engine = new CpuTrainEngine(1);
                        TrainStep train = new TrainStep(config, communicator, engine)) {
                    train.prepare(prepared);
                    results.add(train.run(1, batches, 0.01));
                }
                return null;
            });
        }
        assertThat(results.get(1)).isEqualTo(results.get(0));
    }

    private static TrainConfig config(Layout layout, int microSteps) {
        return new TrainConfig(
                new ModelShape(1, 16), 320, STEPS, 1, 0.01, 0.1, 1, layout, 64, true, true, microSteps, true);
    }
}
