package dev.kcp.launcher;

import dev.kcp.train.Saving;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import picocli.CommandLine.Option;

/** The options of {@code kcp train} that save a run and go on with it. */
final class SaveOptions {
    private static final int EVERY_STEPS = 100;
    private static final int KEEP_STATES = 3;

    @Option(
            names = "--save",
            paramLabel = "DIR",
            description = "Save weights, optimizer and place in the data there, as safetensors; on SIGTERM too.")
    private Path folder;

    @Option(names = "--every", paramLabel = "K", description = "Steps between saves (" + EVERY_STEPS + ").")
    private Integer every;

    @Option(names = "--keep", paramLabel = "N", description = "Newest states to keep (" + KEEP_STATES + ").")
    private Integer keep;

    @Option(
            names = "--resume",
            description = "Go on from the newest whole state in DIR, on any number of ranks; without one, start anew.")
    private boolean resume;

    @Option(
            names = "--new-schedule",
            description =
                    "With --resume: take --steps, --learning-rate, --weight-decay and --clip of this command where the "
                            + "saved run had others, to train longer or on other terms.")
    private boolean newSchedule;

    /** Null where nothing is saved. */
    Path folder() {
        return folder;
    }

    /**
     * @param stopAsked whether the run is to save and end
     * @throws IllegalArgumentException if the options contradict each other
     */
    Optional<Saving> saving(BooleanSupplier stopAsked) {
        if (folder == null) {
            String lone = every != null
                    ? "--every"
                    : keep != null ? "--keep" : resume ? "--resume" : newSchedule ? "--new-schedule" : null;
            if (lone != null) {
                throw new IllegalArgumentException(lone + " needs --save DIR: save=none");
            }
            return Optional.empty();
        }
        if (newSchedule && !resume) {
            throw new IllegalArgumentException("--new-schedule needs --resume: resume=false");
        }
        return Optional.of(new Saving(
                folder,
                every == null ? EVERY_STEPS : OptionRange.atLeast("--every", every, 1),
                keep == null ? KEEP_STATES : OptionRange.atLeast("--keep", keep, 1),
                resume,
                newSchedule,
                stopAsked,
                Main::note));
    }
}
