package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.comm.LocalRanks;
import dev.kcp.core.Layout;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HeldOutLossTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final int STEPS = 7;
    private static final TextCorpus CORPUS = Texts.documents(3, 40);
    /** Several batches and a rest. */
    private static final TextCorpus OTHER = Texts.documents(4, 30);

    private record Run(TrainSummary summary, List<Double> losses, Map<Integer, Double> heldOut) {}

    @ParameterizedTest(name = "{0} ranks, {1}, {2} micro-steps")
    @CsvSource({"1,CONTIGUOUS,1", "2,ZIGZAG,1", "3,ZIGZAG_PER_DOCUMENT,1", "2,CONTIGUOUS,2"})
    void looksChangeNothingAndHaveTheBitsOfOneRank(int world, Layout layout, int microSteps) {
        assertThat(OTHER.bytes() + OTHER.documents()).isGreaterThan(2 * 256);
        Run looking = run(config(layout, microSteps), world, new HeldOutText(OTHER, 3));
        Run plain = run(config(layout, microSteps), world, null);
        assertThat(looking.losses()).isEqualTo(plain.losses());
        assertThat(looking.summary().exchanges()).isEqualTo(plain.summary().exchanges());
        assertThat(looking.summary().haloBytes()).isEqualTo(plain.summary().haloBytes());
        assertThat(looking.heldOut().keySet()).containsExactly(3, 6, 7);
        assertThat(looking.heldOut().values()).doesNotHaveDuplicates();
        assertThat(looking.summary().heldOutLoss()).isEqualTo(looking.heldOut().get(STEPS));
        assertThat(plain.heldOut()).isEmpty();
        assertThat(plain.summary().heldOutLoss()).isNull();
        Run alone = run(config(Layout.CONTIGUOUS, microSteps), 1, new HeldOutText(OTHER, 3));
        assertThat(looking.heldOut()).isEqualTo(alone.heldOut());
    }

    /** One batch of the very text that the next step learns from: its loss is that step's, whatever else happened. */
    @Test
    void lossOfTheNextBatchIsThatOfTheNextStep() {
        TextCorpus one = TextCorpus.of("a single document, shorter than the batch".getBytes());
        int tokens = (int) one.bytes() + 1;
        TrainConfig config =
                new TrainConfig(new ModelShape(2, 16), tokens, 4, 1, 0.01, 0.1, 1, Layout.CONTIGUOUS, 64, true, true);
        List<Double> losses = new ArrayList<>();
        List<Double> heldOut = new ArrayList<>();
        LocalRanks.run(1, DEADLINE, communicator -> {
            try (TrainEngine engine = new CpuTrainEngine(1)) {
                new TrainLoop(config, one, communicator, engine, null, false, new HeldOutText(one, 1))
                        .run(listener(losses, (step, loss) -> heldOut.add(loss)));
            }
            return null;
        });
        assertThat(heldOut.subList(0, 3)).isEqualTo(losses.subList(1, 4));
    }

    /** Batches of all sizes see each token once, so they differ in the order of sums and in where documents are cut. */
    @Test
    void meanIsOverAllTokens() {
        double small = untrained(512);
        double large = untrained(100_000);
        // A cut document lacks three rows of history at each cut.
        assertThat(small).isCloseTo(large, within(2e-3 * large));
        assertThat(large).isBetween(5.0, 6.0);
    }

    @Test
    void textWithoutADocumentIsRefused() {
        assertThatThrownBy(() -> new HeldOutText(TextCorpus.of(), 3))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("documents=0 every=3");
        assertThatThrownBy(() -> new HeldOutText(OTHER, 0)).hasMessageEndingWith("every=0");
    }

    private static double untrained(int tokens) {
        TrainConfig config =
                new TrainConfig(new ModelShape(1, 16), tokens, 1, 1, 0.01, 0.1, 1, Layout.CONTIGUOUS, 64, true, true);
        return LocalRanks.run(1, DEADLINE, communicator -> {
                    try (TrainEngine engine = new CpuTrainEngine(1);
                            TrainStep train = new TrainStep(config, communicator, engine);
                            HeldOutLoss look = new HeldOutLoss(config, OTHER, communicator, engine)) {
                        return look.of(train.weights());
                    }
                })
                .getFirst();
    }

    private interface Look {
        void at(int step, double loss);
    }

    private static TrainListener listener(List<Double> losses, Look look) {
        return new TrainListener() {
            @Override
            public void onHeldOut(int step, double loss) {
                look.at(step, loss);
            }

            @Override
            public void onStep(int step, double loss, double tokensPerSecond) {
                losses.add(loss);
            }
        };
    }

    private static Run run(TrainConfig config, int world, HeldOutText heldOut) {
        List<Run> runs = LocalRanks.run(world, DEADLINE, communicator -> {
            List<Double> losses = new ArrayList<>();
            Map<Integer, Double> looks = new TreeMap<>();
            try (TrainEngine engine = new CpuTrainEngine(1)) {
                TrainSummary summary = new TrainLoop(config, CORPUS, communicator, engine, null, false, heldOut)
                        .run(listener(losses, looks::put));
                return new Run(summary, losses, looks);
            }
        });
        assertThat(runs).allMatch(run -> run.heldOut().equals(runs.getFirst().heldOut()));
        return runs.getFirst();
    }

    private static TrainConfig config(Layout layout, int microSteps) {
        return new TrainConfig(
                new ModelShape(2, 16), 256, STEPS, 1, 0.01, 0.1, 1, layout, 64, true, true, microSteps, true);
    }
}
