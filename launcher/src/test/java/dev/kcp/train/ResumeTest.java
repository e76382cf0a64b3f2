package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.LocalRanks;
import dev.kcp.core.Layout;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ResumeTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final int STEPS = 9;
    private static final TextCorpus CORPUS = Texts.documents(7, 40);

    @TempDir
    Path folder;

    private boolean newSchedule;
    private final List<String> notes = Collections.synchronizedList(new ArrayList<>());

    private record Run(TrainSummary summary, List<Double> losses, boolean stopped) {}

    @ParameterizedTest(name = "{0} ranks, same bits {1}, {2} micro-steps")
    @CsvSource({"1,true,1", "2,false,1", "2,true,3", "3,false,2"})
    void stoppedAndResumedRunHasTheBitsOfTheUnbrokenOne(int world, boolean sameBits, int microSteps)
            throws IOException {
        TrainConfig config = config(sameBits, microSteps, Layout.ZIGZAG);
        Run unbroken = run(config, CORPUS, world, folder.resolve("unbroken"), false, STEPS);
        Path broken = folder.resolve("broken");
        Run first = run(config, CORPUS, world, broken, false, 4);
        assertThat(first.stopped()).isTrue();
        assertThat(first.summary().steps()).isEqualTo(4);
        Run second = run(config, CORPUS, world, broken, true, STEPS);
        assertThat(second.stopped()).isFalse();
        assertThat(second.summary().resumedFrom()).isEqualTo(4);
        assertThat(Stream.concat(first.losses().stream(), second.losses().stream()))
                .containsExactlyElementsOf(unbroken.losses());
        assertThat(second.summary().firstLoss()).isEqualTo(unbroken.summary().firstLoss());
        assertThat(lastState(broken)).isEqualTo(lastState(folder.resolve("unbroken")));
    }

    @Test
    void anyWorldAndLayoutGoOnWithTheSameBits() throws IOException {
        TrainConfig config = config(true, 2, Layout.CONTIGUOUS);
        Run unbroken = run(config, CORPUS, 1, folder.resolve("unbroken"), false, STEPS);
        Path broken = folder.resolve("broken");
        List<Double> losses = new ArrayList<>();
        losses.addAll(run(config, CORPUS, 2, broken, false, 3).losses());
        losses.addAll(
                run(config(true, 2, Layout.ZIGZAG), CORPUS, 3, broken, true, 5).losses());
        losses.addAll(run(config(true, 2, Layout.ZIGZAG_PER_DOCUMENT), CORPUS, 1, broken, true, 6)
                .losses());
        losses.addAll(run(config, CORPUS, 4, broken, true, STEPS).losses());
        assertThat(losses).isEqualTo(unbroken.losses());
        assertThat(lastState(broken)).isEqualTo(lastState(folder.resolve("unbroken")));
    }

    @Test
    void newestStatesAreKeptAndAFinishedRunHasNothingLeft() throws IOException {
        TrainConfig config = config(true, 1, Layout.CONTIGUOUS);
        Run run = run(config, CORPUS, 1, folder, false, STEPS);
        assertThat(states(folder))
                .containsExactly(
                        "state-00000006.safetensors", "state-00000008.safetensors", "state-00000009.safetensors");
        Run again = run(config, CORPUS, 2, folder, true, STEPS);
        assertThat(again.losses()).isEmpty();
        assertThat(again.summary().finalLoss()).isEqualTo(run.summary().finalLoss());
        assertThat(again.summary().steps()).isEqualTo(STEPS);
    }

    @ParameterizedTest
    @CsvSource({"CUT,is cut short", "EMPTY,is too short", "FLIPPED,is damaged: checksum=", "TEXT,claims a header"})
    void damagedStateIsRefusedAndTheOneBeforeUsed(String damage, String reason) throws IOException {
        TrainConfig config = config(true, 1, Layout.CONTIGUOUS);
        List<Double> unbroken =
                run(config, CORPUS, 1, folder.resolve("unbroken"), false, STEPS).losses();
        Path broken = folder.resolve("broken");
        run(config, CORPUS, 1, broken, false, 7);
        Path newest = broken.resolve("state-00000007.safetensors");
        byte[] bytes = Files.readAllBytes(newest);
        switch (damage) {
            case "CUT" -> Files.write(newest, java.util.Arrays.copyOf(bytes, bytes.length - 5));
            case "EMPTY" -> Files.write(newest, new byte[0]);
            case "FLIPPED" -> {
                bytes[bytes.length - 99] ^= 0x10;
                Files.write(newest, bytes);
            }
            default -> Files.writeString(newest, "not a state at all");
        }
        Files.writeString(broken.resolve(".state-00000008.safetensors.77.part"), "half written");
        Run resumed = run(config, CORPUS, 1, broken, true, STEPS);
        assertThat(resumed.losses()).isEqualTo(unbroken.subList(6, STEPS));
        assertThat(notes).anySatisfy(note -> assertThat(note)
                .contains("refused a saved state", "state-00000007.safetensors", reason)
                .doesNotContain("\n"));
        assertThat(lastState(broken)).isEqualTo(lastState(folder.resolve("unbroken")));
        assertThat(broken.resolve(".state-00000008.safetensors.77.part")).doesNotExist();
    }

    @Test
    void folderWithDamagedStatesOnlyIsRefused() throws IOException {
        Files.writeString(folder.resolve("state-00000003.safetensors"), "x");
        assertThatThrownBy(() -> run(config(true, 1, Layout.CONTIGUOUS), CORPUS, 1, folder, true, STEPS))
                .isInstanceOfSatisfying(KcpException.class, failure -> assertThat(failure.code())
                        .isEqualTo(KcpException.Code.BAD_DATA))
                .hasMessageContaining("no saved state in the folder is whole");
    }

    @Test
    void stateOfAnotherRunIsRefusedNamingBothValues() {
        TrainConfig config = config(true, 1, Layout.CONTIGUOUS);
        run(config, CORPUS, 1, folder, false, 3);
        assertRefused(
                new TrainConfig(new ModelShape(1, 24), 320, STEPS, 1, 0.01, 0.1, 1, Layout.CONTIGUOUS, 64, true, true),
                CORPUS,
                "channels=24 saved channels=16");
        assertRefused(
                new TrainConfig(new ModelShape(2, 16), 320, STEPS, 1, 0.01, 0.1, 1, Layout.CONTIGUOUS, 64, true, true),
                CORPUS,
                "layers=2 saved layers=1");
        assertRefused(
                new TrainConfig(new ModelShape(1, 16), 320, STEPS, 2, 0.01, 0.1, 1, Layout.CONTIGUOUS, 64, true, true),
                CORPUS,
                "seed=2 saved seed=1");
        assertRefused(config(true, 2, Layout.CONTIGUOUS), CORPUS, "microSteps=2 saved microSteps=1");
        assertRefused(config, Texts.documents(8, 40), "saved bytes=");
    }

    private void assertRefused(TrainConfig config, TextCorpus corpus, String named) {
        assertThatThrownBy(() -> saving(folder, true, () -> false).check(config, corpus))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(named);
        assertThatThrownBy(() -> run(config, corpus, 2, folder, true, STEPS))
                .isInstanceOf(RuntimeException.class)
                .hasMessageContaining(named);
    }

    @Test
    void finishedRunGoesOnLongerAndOnOtherTermsWhereThatIsAskedFor() {
        TrainConfig config = config(true, 1, Layout.CONTIGUOUS);
        Path first = folder.resolve("first");
        run(config, CORPUS, 1, first, false, STEPS);
        List<List<Double>> losses = new ArrayList<>();
        for (double learningRate : new double[] {0.01, 0.02}) {
            TrainConfig longer = new TrainConfig(
                    config.shape(), 320, STEPS + 3, 1, learningRate, 0.1, 1, Layout.ZIGZAG, 64, true, true);
            Path states = copy(first, folder.resolve("rate" + learningRate));
            newSchedule = false;
            assertThatThrownBy(() -> saving(states, true, () -> false).check(longer, CORPUS))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("--new-schedule")
                    .hasMessageContaining(" saved ");
            newSchedule = true;
            saving(states, true, () -> false).check(longer, CORPUS);
            Run run = run(longer, CORPUS, 2, states, true, STEPS + 3);
            assertThat(run.summary().resumedFrom()).isEqualTo(STEPS);
            losses.add(run.losses());
            // What it saved is its own from then on.
            newSchedule = false;
            assertThat(run(longer, CORPUS, 1, states, true, STEPS + 3).losses()).isEmpty();
            assertThatThrownBy(() -> saving(states, true, () -> false).check(config, CORPUS))
                    .hasMessageContaining(" saved ");
        }
        // The next batch's loss is that of the saved weights; how they move then follows from the new terms.
        assertThat(losses).allMatch(run -> run.size() == 3);
        assertThat(losses.get(0).getFirst()).isEqualTo(losses.get(1).getFirst());
        assertThat(losses.get(0).getLast()).isNotEqualTo(losses.get(1).getLast());
    }

    @Test
    void newScheduleDoesNotMakeAnotherModelOrTextTheSameRun() {
        TrainConfig config = config(true, 1, Layout.CONTIGUOUS);
        run(config, CORPUS, 1, folder, false, 3);
        newSchedule = true;
        assertRefused(config(true, 2, Layout.CONTIGUOUS), CORPUS, "microSteps=2 saved microSteps=1");
        assertRefused(config, Texts.documents(8, 40), "saved bytes=");
        assertThatThrownBy(() -> saving(folder, false, () -> false))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("newSchedule=true resume=false");
    }

    @Test
    void logIsOnTheDiskBeforeTheStateThatKnowsItsSteps() {
        List<Integer> saved = new ArrayList<>();
        LocalRanks.run(1, DEADLINE, communicator -> {
            try (TrainEngine engine = new CpuTrainEngine(1)) {
                TrainListener listener = new TrainListener() {
                    @Override
                    public void onStep(int step, double loss, double tokensPerSecond) {}

                    @Override
                    public void onSave(int step) {
                        assertThat(folder.resolve("state-0000000" + step + ".safetensors"))
                                .doesNotExist();
                        saved.add(step);
                    }
                };
                Saving saving = saving(folder, false, () -> false);
                return new TrainLoop(
                                config(true, 1, Layout.CONTIGUOUS), CORPUS, communicator, engine, saving, false, null)
                        .run(TrainListener.both((step, loss, speed) -> {}, listener));
            }
        });
        assertThat(saved).containsExactly(2, 4, 6, 8, STEPS);
    }

    @Test
    void weightsThatAreNotFiniteAreNotSaved() throws IOException {
        TrainConfig config =
                new TrainConfig(new ModelShape(1, 16), 320, 1, 1, 1e40, 0, 1, Layout.CONTIGUOUS, 64, true, true);
        assertThatThrownBy(() -> run(config, CORPUS, 2, folder, false, STEPS))
                .isInstanceOfSatisfying(KcpException.class, failure -> assertThat(failure.code())
                        .isEqualTo(KcpException.Code.RANK_FAILED))
                .hasMessageContaining("the state is not saved: step=1 tensor=weight.");
        assertThat(states(folder)).isEmpty();
    }

    private static Path copy(Path from, Path to) {
        try (Stream<Path> files = Files.list(from)) {
            Files.createDirectory(to);
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName()));
            }
            return to;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void statesAreNotMixedWithThoseOfANewRun() {
        TrainConfig config = config(true, 1, Layout.CONTIGUOUS);
        run(config, CORPUS, 1, folder, false, 3);
        assertThatThrownBy(() -> run(config, CORPUS, 1, folder, false, STEPS))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("give --resume")
                .hasMessageEndingWith("newest=state-00000003.safetensors");
        try (StateFolder other = new StateFolder(folder)) {
            other.lock();
            assertThatThrownBy(() -> run(config, CORPUS, 1, folder, true, STEPS))
                    .isInstanceOf(KcpException.class)
                    .hasMessageContaining("another run saves in this folder");
        }
    }

    /** @param end after which step the run is asked to stop */
    private Run run(TrainConfig config, TextCorpus corpus, int world, Path states, boolean resume, int end) {
        List<Run> runs = LocalRanks.run(world, DEADLINE, communicator -> {
            List<Double> losses = new ArrayList<>();
            int[] made = {0};
            // Only the last rank is asked, as where a signal reaches one process.
            boolean isAsked = communicator.rank() == world - 1;
            try (TrainEngine engine = new CpuTrainEngine(1)) {
                TrainLoop loop = new TrainLoop(
                        config,
                        corpus,
                        communicator,
                        engine,
                        saving(states, resume, () -> isAsked && made[0] == end),
                        false,
                        null);
                TrainSummary summary = loop.run((step, loss, speed) -> {
                    made[0] = step;
                    losses.add(loss);
                });
                return new Run(summary, losses, loop.wasStopped());
            }
        });
        assertThat(runs).allMatch(run -> run.losses().equals(runs.getFirst().losses()));
        return runs.getFirst();
    }

    private Saving saving(Path states, boolean resume, java.util.function.BooleanSupplier stopAsked) {
        return new Saving(states, 2, 3, resume, newSchedule, stopAsked, notes::add);
    }

    private static TrainConfig config(boolean sameBits, int microSteps, Layout layout) {
        return new TrainConfig(
                new ModelShape(1, 16), 320, STEPS, 1, 0.01, 0.1, 1, layout, 64, true, sameBits, microSteps, true);
    }

    private static List<String> states(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith("safetensors"))
                    .sorted()
                    .toList();
        }
    }

    private static byte[] lastState(Path folder) throws IOException {
        return Files.readAllBytes(folder.resolve("state-0000000" + STEPS + ".safetensors"));
    }
}
