package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.core.Layout;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.cuda.NeedsTwoGpus;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A run on GPUs that is stopped and gone on with, once and again on another number of GPUs, bit by bit. */
class CudaResumeTest {
    /** Each part of a run is long enough for its steps to be replayed. */
    private static final int PART = 5;

    private static final int STEPS = 3 * PART;

    @TempDir
    Path folder;

    @NeedsGpu
    @ParameterizedTest(name = "align {0}, {1} micro-steps")
    @CsvSource({"64,1", "64,2", "1,1"})
    void stoppedAndResumedRunHasTheBitsOfTheUnbrokenOne(int align, int microSteps) throws IOException {
        assertSameBits(align, microSteps, 1, 1, 1);
    }

    @NeedsTwoGpus
    @ParameterizedTest(name = "{1} micro-steps, on {2}, {3} and {4} GPUs")
    @CsvSource({"64,1,2,1,2", "64,2,1,2,1", "1,1,2,2,2"})
    void anyNumberOfGpusGoesOnWithTheSameBits(int align, int microSteps, int first, int second, int third)
            throws IOException {
        assertSameBits(align, microSteps, first, second, third);
    }

    private void assertSameBits(int align, int microSteps, int... worlds) throws IOException {
        TrainConfig config = config(align, microSteps);
        Path unbroken = folder.resolve("unbroken");
        // Without the promise of the same bits they are those of one number of ranks.
        List<Double> losses = run(config, unbroken, worlds[worlds.length - 1], STEPS);
        Path broken = folder.resolve("broken");
        List<Double> parts = new ArrayList<>();
        for (int part = 0; part < worlds.length; part++) {
            parts.addAll(run(config, broken, worlds[part], (part + 1) * PART));
            assertThat(parts).hasSize((part + 1) * PART);
        }
        assertThat(parts).isEqualTo(losses).doesNotHaveDuplicates();
        assertThat(lastState(broken)).isEqualTo(lastState(unbroken));
    }

    /** @param end after which step the run is asked to stop */
    private static List<Double> run(TrainConfig config, Path states, int world, int end) {
        List<List<Double>> ofRanks = CudaRuns.onGpus(world, (group, engine) -> {
            List<Double> losses = new ArrayList<>();
            int[] made = {0};
            Saving saving = new Saving(states, STEPS, 3, true, false, () -> made[0] == end, note -> {});
            new TrainLoop(config, CudaRuns.CORPUS, group, engine, saving, false, null).run((step, loss, speed) -> {
                made[0] = step;
                losses.add(loss);
            });
            return losses;
        });
        assertThat(ofRanks).allMatch(ofRanks.getFirst()::equals);
        return ofRanks.getFirst();
    }

    private static TrainConfig config(int align, int microSteps) {
        return new TrainConfig(
                new ModelShape(2, 64),
                777,
                STEPS,
                1,
                0.01,
                0.1,
                1,
                Layout.CONTIGUOUS,
                align,
                true,
                align % 64 == 0,
                microSteps,
                true);
    }

    private static byte[] lastState(Path folder) throws IOException {
        return Files.readAllBytes(folder.resolve("state-000000" + STEPS + ".safetensors"));
    }
}
