package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.Layout;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.train.CudaRuns.Run;
import dev.kcp.train.cpu.CpuTrainEngine;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Whole steps on one GPU: the first ones as they are called, the later ones as replays of one record. */
@NeedsGpu
class CudaTrainTest {
    private static Run onGpu(TrainConfig config) {
        return onGpu(CudaRuns::run, config);
    }

    private static Run onGpu(Runner runner, TrainConfig config) {
        return LocalRanks.run(1, CudaRuns.DEADLINE, communicator -> {
                    try (TrainEngine engine = BothEngines.openGpu(0)) {
                        return runner.run(config, communicator, engine);
                    }
                })
                .getFirst();
    }

    @FunctionalInterface
    private interface Runner {
        Run run(TrainConfig config, Communicator communicator, TrainEngine engine);
    }

    private static Run onCpu(TrainConfig config) {
        return LocalRanks.run(1, CudaRuns.DEADLINE, communicator -> {
                    try (TrainEngine engine = new CpuTrainEngine(1)) {
                        return CudaRuns.run(config, communicator, engine);
                    }
                })
                .getFirst();
    }

    @ParameterizedTest
    @CsvSource({"777,64,64,true,1", "2048,256,128,false,1", "1500,40,1,true,1", "777,64,64,true,3", "600,40,1,false,2"})
    void lossesAreThoseOfTheCpuWithinTheRoundingOfRows(
            int tokens, int channels, int align, boolean checkpoint, int microSteps) {
        TrainConfig config = CudaRuns.config(tokens, channels, Layout.CONTIGUOUS, align, checkpoint, microSteps);
        Run expected = onCpu(config);
        Run got = onGpu(config);
        for (int step = 0; step < CudaRuns.STEPS; step++) {
            double loss = expected.results().get(step).loss();
            assertThat(got.results().get(step).loss()).as("step %s", step + 1).isCloseTo(loss, within(0.01 * loss));
            double norm = expected.results().get(step).gradientNorm();
            assertThat(got.results().get(step).gradientNorm()).isCloseTo(norm, within(0.1 * norm));
        }
        assertThat(got.exchanges()).isEqualTo(expected.exchanges());
        assertThat(got.exchanges())
                .containsOnly(new ExchangeCounts(CudaRuns.STEPS * microSteps, 0, CudaRuns.STEPS * microSteps));
    }

    @ParameterizedTest
    @CsvSource({"777,64,64", "4096,512,1024", "1500,40,1"})
    void replayedStepsHaveTheBitsOfCalledOnesAndOfAnotherRun(int tokens, int channels, int align) {
        Run replayed = onGpu(CudaRuns.config(tokens, channels, Layout.CONTIGUOUS, align, true));
        // With one rank this layout has the same rows, and a context of its own for each batch.
        Run called = onGpu(CudaRuns.config(tokens, channels, Layout.ZIGZAG_PER_DOCUMENT, align, true));
        Run again = onGpu(CudaRuns.config(tokens, channels, Layout.CONTIGUOUS, align, true));
        for (Run other : new Run[] {called, again}) {
            assertThat(other.results()).isEqualTo(replayed.results());
            assertThat(other.weights()).isEqualTo(replayed.weights());
            assertThat(other.first()).isEqualTo(replayed.first());
            assertThat(other.second()).isEqualTo(replayed.second());
            assertThat(other.exchanges()).isEqualTo(replayed.exchanges());
        }
        assertThat(replayed.results()).doesNotHaveDuplicates();
    }

    @ParameterizedTest
    @CsvSource({"777,64,64,CONTIGUOUS,1", "4096,512,1024,ZIGZAG_PER_DOCUMENT,1", "600,40,64,CONTIGUOUS,2"})
    void stepsPreparedAheadHaveTheBitsOfThoseThatAreNot(
            int tokens, int channels, int align, Layout layout, int microSteps) {
        TrainConfig config = CudaRuns.config(tokens, channels, layout, align, true, microSteps);
        Run ahead = onGpu(config);
        Run other = onGpu(CudaRuns::runWithoutPreparing, config);
        assertThat(ahead.results()).isEqualTo(other.results());
        assertThat(ahead.weights()).isEqualTo(other.weights());
        assertThat(ahead.second()).isEqualTo(other.second());
        assertThat(ahead.exchanges()).isEqualTo(other.exchanges());
    }
}
