package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.core.Layout;
import dev.kcp.cuda.NeedsTwoGpus;
import dev.kcp.train.CudaRuns.Run;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The whole run on one GPU and on two, connected by NCCL, bit by bit; steps are replayed from the fourth on. */
@NeedsTwoGpus
class CudaWorldTest {
    @ParameterizedTest(name = "{0} tokens, {1} channels, align {2}, {3}, {4} micro-steps")
    @CsvSource({
        "777,64,64,CONTIGUOUS,1",
        "777,64,64,ZIGZAG,1",
        "777,64,64,ZIGZAG_PER_DOCUMENT,1",
        "8192,512,1024,CONTIGUOUS,1",
        "1500,40,192,ZIGZAG,1",
        "777,64,64,CONTIGUOUS,3",
        "1500,40,192,ZIGZAG_PER_DOCUMENT,2"
    })
    void lossNormWeightsAndMomentsDoNotDependOnTheNumberOfGpus(
            int tokens, int channels, int align, Layout layout, int microSteps) {
        TrainConfig config = CudaRuns.config(tokens, channels, layout, align, true, microSteps);
        Run alone = run(config, 1).getFirst();
        for (Run together : run(config, 2)) {
            assertThat(together.results()).isEqualTo(alone.results());
            assertThat(together.weights()).isEqualTo(alone.weights());
            assertThat(together.first()).isEqualTo(alone.first());
            assertThat(together.second()).isEqualTo(alone.second());
            assertThat(together.exchanges()).isEqualTo(alone.exchanges());
        }
        assertThat(alone.results()).doesNotHaveDuplicates();
    }

    @Test
    void lossOfHeldOutTextDoesNotDependOnTheNumberOfGpusAndChangesNothing() {
        TrainConfig config = CudaRuns.config(777, 64, Layout.CONTIGUOUS, 64, true);
        Losses alone = losses(config, 1, new HeldOutText(Texts.documents(4, 40), 3));
        Losses together = losses(config, 2, new HeldOutText(Texts.documents(4, 40), 3));
        assertThat(alone.heldOut()).hasSize(3).doesNotHaveDuplicates();
        assertThat(together).isEqualTo(alone);
        assertThat(losses(config, 2, null).ofSteps()).isEqualTo(alone.ofSteps());
    }

    private record Losses(List<Double> ofSteps, List<Double> heldOut) {}

    private static Losses losses(TrainConfig config, int world, HeldOutText text) {
        return CudaRuns.onGpus(world, (group, engine) -> {
                    Losses losses = new Losses(new ArrayList<>(), new ArrayList<>());
                    new TrainLoop(config, CudaRuns.CORPUS, group, engine, null, false, text).run(new TrainListener() {
                        @Override
                        public void onHeldOut(int step, double loss) {
                            losses.heldOut().add(loss);
                        }

                        @Override
                        public void onStep(int step, double loss, double tokensPerSecond) {
                            losses.ofSteps().add(loss);
                        }
                    });
                    return losses;
                })
                .getFirst();
    }

    private static List<Run> run(TrainConfig config, int world) {
        return CudaRuns.onGpus(world, (group, engine) -> CudaRuns.run(config, group, engine));
    }
}
