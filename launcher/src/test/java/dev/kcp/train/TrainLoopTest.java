package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.KcpException;
import dev.kcp.comm.LocalRanks;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.IntFunction;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class TrainLoopTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final TextCorpus CORPUS = TextCorpus.of(text());

    private record Run(TrainSummary summary, List<Double> losses) {}

    @ParameterizedTest
    @CsvSource({"2,CONTIGUOUS", "3,CONTIGUOUS", "4,CONTIGUOUS", "2,ZIGZAG", "3,ZIGZAG_PER_DOCUMENT"})
    void lossesAgreeBetweenWorlds(int world, Layout layout) {
        TrainConfig config = config(512, 50, layout, 64, true);
        List<Double> alone = run(config, 1).losses();
        List<Double> together = run(config, world).losses();
        assertThat(together).hasSize(50);
        assertThat(together.getFirst()).isCloseTo(alone.getFirst(), relative(alone.getFirst(), 1e-5));
        for (int step = 0; step < 50; step++) {
            assertThat(together.get(step)).isCloseTo(alone.get(step), relative(alone.get(step), 1e-3));
        }
    }

    @Test
    void lossFalls() {
        Run run = run(config(512, 60, Layout.CONTIGUOUS, 64, true), 2);
        assertThat(run.summary().firstLoss()).isBetween(5.3, 5.8);
        assertThat(run.summary().finalLoss()).isLessThan(3.5);
        assertThat(run.losses()).first().isEqualTo(run.summary().firstLoss());
        assertThat(run.losses()).last().isEqualTo(run.summary().finalLoss());
    }

    @Test
    void ranksWithoutTokensTakePart() {
        TrainConfig config = config(128, 3, Layout.CONTIGUOUS, 64, true);
        Partition partition = Partition.of(
                Layout.CONTIGUOUS, new Packer(CORPUS, 128, config.seed()).next().cuSeqlens(), 4, 64);
        assertThat(List.of(partition.tokens(0), partition.tokens(1), partition.tokens(2), partition.tokens(3)))
                .contains(0);
        List<Double> alone = run(config, 1).losses();
        List<Double> together = run(config, 4).losses();
        assertThat(together.getLast()).isCloseTo(alone.getLast(), relative(alone.getLast(), 1e-4));
    }

    @Test
    void oneTokenOverThreeRanks() {
        TrainConfig config = config(1, 2, Layout.CONTIGUOUS, 1, true);
        assertThat(run(config, 3).losses().getFirst())
                .isCloseTo(run(config, 1).losses().getFirst(), within(1e-4));
    }

    @ParameterizedTest
    @CsvSource({"1,true", "2,true", "3,true", "2,false"})
    void layersExchangeOnceForwardAndOnceBackward(int world, boolean checkpoint) {
        TrainSummary summary =
                run(config(512, 3, Layout.CONTIGUOUS, 1, checkpoint), world).summary();
        assertThat(summary.exchanges().forward()).isEqualTo(1L);
        assertThat(summary.exchanges().recompute()).isEqualTo(0L);
        assertThat(summary.exchanges().backward()).isEqualTo(1L);
    }

    @Test
    void haloBytesAreThoseOfTheCutDocuments() {
        // One document of 40 tokens, cut in the middle: three rows of 16 BF16 channels per layer to the next rank, and
        // three rows of FP32 gradients back.
        TextCorpus one = TextCorpus.of("abcdefghijklmnopqrstuvwxyzabcdefghijklm".getBytes(StandardCharsets.US_ASCII));
        TrainConfig config = config(40, 2, Layout.CONTIGUOUS, 1, true);
        TrainSummary.HaloBytes bytes = run(config, one, 2).summary().haloBytes();
        assertThat(bytes.forward()).isEqualTo(2L * 3 * 16 * 2);
        assertThat(bytes.backward()).isEqualTo(2L * 3 * 16 * 4);
        TrainSummary.HaloBytes alone = run(config, one, 1).summary().haloBytes();
        assertThat(alone).isEqualTo(new TrainSummary.HaloBytes(0, 0));
    }

    @ParameterizedTest
    @CsvSource({"1", "2"})
    void checkpointingChangesNoLoss(int world) {
        List<Double> kept = run(config(256, 8, Layout.ZIGZAG, 1, false), world).losses();
        assertThat(run(config(256, 8, Layout.ZIGZAG, 1, true), world).losses()).isEqualTo(kept);
    }

    @ParameterizedTest
    @EnumSource(Layout.class)
    void sameRunGivesTheSameBits(Layout layout) {
        TrainConfig config = config(256, 8, layout, 8, true);
        assertThat(run(config, 2).losses()).isEqualTo(run(config, 2).losses());
    }

    @Test
    void runThatLeavesTheFiniteNumbersEnds() {
        TrainConfig wild =
                new TrainConfig(new ModelShape(2, 16), 64, 50, 1, 1e30, 0, 1, Layout.CONTIGUOUS, 64, true, true);
        assertThatThrownBy(() -> run(wild, 1))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("left the finite numbers: step=");
    }

    @Test
    void ranksWithOtherSettingsOrTextAreNamed() {
        TrainConfig config = config(64, 1, Layout.CONTIGUOUS, 64, true);
        TrainConfig longer = config(64, 2, Layout.CONTIGUOUS, 64, true);
        TextCorpus other = TextCorpus.of("another text".getBytes(StandardCharsets.US_ASCII));
        assertThatThrownBy(() -> runEach(3, rank -> rank == 1 ? longer : config, rank -> CORPUS))
                .isInstanceOfSatisfying(KcpException.class, failure -> assertThat(failure.code())
                        .isEqualTo(KcpException.Code.DISAGREEMENT))
                .hasMessageContaining("rank1={")
                .hasMessageContaining("steps=2");
        assertThatThrownBy(() -> runEach(2, rank -> config, rank -> rank == 1 ? other : CORPUS))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("documents=1 bytes=12");
    }

    private static Run run(TrainConfig config, int world) {
        return run(config, CORPUS, world);
    }

    private static Run run(TrainConfig config, TextCorpus corpus, int world) {
        List<Run> runs = runEach(world, rank -> config, rank -> corpus);
        for (Run run : runs) {
            assertThat(run.losses()).isEqualTo(runs.getFirst().losses());
            assertThat(run.summary().haloBytes())
                    .isEqualTo(runs.getFirst().summary().haloBytes());
        }
        return runs.getFirst();
    }

    private static List<Run> runEach(int world, IntFunction<TrainConfig> configOf, IntFunction<TextCorpus> corpusOf) {
        return LocalRanks.run(world, DEADLINE, communicator -> {
            int rank = communicator.rank();
            List<Double> losses = new ArrayList<>();
            try (TrainEngine engine = new CpuTrainEngine(1)) {
                TrainLoop loop = new TrainLoop(configOf.apply(rank), corpusOf.apply(rank), communicator, engine);
                TrainSummary summary = loop.run((step, loss, tokensPerSecond) -> losses.add(loss));
                return new Run(summary, losses);
            }
        });
    }

    private static TrainConfig config(int tokens, int steps, Layout layout, int align, boolean checkpoint) {
        return config(tokens, steps, layout, align, checkpoint, false);
    }

    private static TrainConfig config(
            int tokens, int steps, Layout layout, int align, boolean checkpoint, boolean sameBits) {
        return new TrainConfig(
                new ModelShape(2, 16), tokens, steps, 1, 0.01, 0.1, 1, layout, align, checkpoint, sameBits);
    }

    private static Offset<Double> relative(double of, double tolerance) {
        return within(of * tolerance);
    }

    /** Words of a small vocabulary in documents of 1 to 30 words. */
    private static byte[] text() {
        String[] words = {"the ", "rank ", "sends ", "rows ", "to ", "another ", "and ", "waits\n", "a "};
        Random random = new Random(11);
        StringBuilder text = new StringBuilder();
        for (int document = 0; document < 200; document++) {
            for (int word = random.nextInt(30); word >= 0; word--) {
                text.append(words[random.nextInt(words.length)]);
            }
            text.append("\n\n");
        }
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }
}
